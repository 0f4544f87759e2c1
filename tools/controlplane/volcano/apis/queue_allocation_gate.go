package v1beta1

// QueueAllocationGateKey names an annotation and a scheduling gate. Volcano v1.15.0 uses it, and no release of
// volcano.sh/apis that can be downloaded has it.
const QueueAllocationGateKey = GroupName + "/queue-allocation-gate"
