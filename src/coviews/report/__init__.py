"""What a person looks at: contact sheets, statistics of policies, plots."""
