"""The policies that Fast AutoAugment's authors published, as files of numbers.

They are read from the package archai 1.0.0 (MIT licence), without running any of it:

    pip download --no-deps archai==1.0.0
    python benchmarks/fast_autoaugment.py archai-1.0.0-py3-none-any.whl
"""

import ast
import sys
import zipfile
from pathlib import Path

from coviews.policies.listed import ListedPolicy, ListedStep

SOURCE = "archai/supergraph/datasets/aug_policies.py"
NAMES = {"fa_reduced_cifar10": "cifar10", "fa_reduced_svhn": "svhn", "fa_resnet50_rimagenet": "imagenet"}
FOLDER = Path(__file__).parents[1] / "src" / "coviews" / "policies" / "fast_autoaugment"


def main() -> None:
    with zipfile.ZipFile(sys.argv[1]) as package:
        tree = ast.parse(package.read(SOURCE))
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name in NAMES:
            rows = ast.literal_eval(next(node.value for node in function.body if isinstance(node, ast.Assign)))
            policy = ListedPolicy(tuple(tuple(ListedStep(*step) for step in row) for row in rows))
            origin = {
                "paper": "Lim et al., Fast AutoAugment, NeurIPS 2019",
                "numbers": f"{function.name} of archai 1.0.0",
            }
            policy.save(FOLDER / f"{NAMES[function.name]}.json", origin)
            print(f"{NAMES[function.name]}: {len(rows)} subpolicies")


if __name__ == "__main__":
    main()
