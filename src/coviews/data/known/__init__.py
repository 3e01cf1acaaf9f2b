"""The known data sets: CIFAR-10, CIFAR-100, SVHN, STL-10 and TinyImageNet."""
