"""Models over views: what they need of the data is small, and kept fresh."""

from viewmill.models.chow_liu_tree import ChowLiuTree
from viewmill.models.feature_selection import FeatureSelection
from viewmill.models.linear_regression import LinearRegression
from viewmill.models.mutual_information import MutualInformation
from viewmill.models.principal_components import PrincipalComponents

__all__ = [
    "ChowLiuTree",
    "FeatureSelection",
    "LinearRegression",
    "MutualInformation",
    "PrincipalComponents",
]
