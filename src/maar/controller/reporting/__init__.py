"""What users read on their own objects: conditions, notes, events and statuses, on which object, and how often.

`reports` is the front. It returns writes and sends none. Imports `snapshots`. `writing`, `watching` and the scheduler
import it.
"""
