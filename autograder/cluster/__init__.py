"""A batch on a Dask cluster: the same submissions, tests and gradebook, run by its workers.

Dask knows which workers there are, gives them work, and does again what a lost worker had. Here is
only what grading adds: each worker keeps warm, confined processes (`worker`), those that differ in
versions (`versions`) get no work, and a run is a place like one on this machine (`coordinator`).
Needs the extra `cluster`.
"""

from autograder.cluster.coordinator import Cluster, ClusterRefused, local

__all__ = ["Cluster", "ClusterRefused", "local"]
