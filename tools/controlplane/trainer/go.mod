// The CRD of TrainJob, by the version of Kubeflow Trainer.
module maar/controlplane/trainer

go 1.26.0

require github.com/kubeflow/trainer/v2 v2.1.0
