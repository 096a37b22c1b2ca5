"""What the store of an evaluation keeps beside its plan, for whoever only asks.

Apart from the readers of whole runs, which bring the arrays of statistics along: a process that
asks starts without them.
"""

from __future__ import annotations

from farm.core.task import TaskSpec
from farm.core.trial import decode_tasks
from farm.store.protocol import TASKS_FILE, Store


def tasks_of(store: Store) -> dict[str, TaskSpec]:
    """Read the tasks of an evaluation, by id, in their order; raises `Corrupt`."""
    tasks = decode_tasks(store.read_kept(TASKS_FILE), path=TASKS_FILE)
    return {task.task_id: task for task in tasks}
