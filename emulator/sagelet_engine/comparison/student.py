"""Student's t."""

#: 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093,
)  # fmt: skip


def quantile(freedom: int) -> float:
    """Returns the 97.5 % quantile for at least one degree of freedom. From 19 on it is that of 19, which is larger."""
    return _T[min(freedom, len(_T)) - 1]
