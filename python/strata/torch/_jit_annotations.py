"""torch.jit.annotations: types for annotations, which nothing reads here."""

from typing import *  # noqa: F403


class _BroadcastingList:
    """BroadcastingList2[int]: one number or a list of them."""

    def __getitem__(self, kind):
        return kind | list[kind]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
