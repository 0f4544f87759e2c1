"""The kinds of Kubeflow, one file each: the jobs of its training operator, and TrainJob.

`family` has what the training operator's kinds share.
"""
