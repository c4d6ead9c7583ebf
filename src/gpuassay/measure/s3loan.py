"""What a node is lent of an object store: URLs for objects below a prefix of ours, and no key.

What each node is to do lies in the store too, for there are more URLs than a job's standard input can carry
to many nodes; of it a node is told one URL.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.measure.object_cases import Case
    from gpuassay.measure.s3client import Place


@dataclass(frozen=True)
class Loan:
    """URLs that are good for ``seconds``, for the objects of ``cases``, each written ``rounds`` times.

    With ``own`` a node reads what it has written itself, and else what another one has.
    """

    place: Place
    cases: Sequence[Case]
    rounds: int
    seconds: int
    own: bool = False

    def plans(self, nodes: Sequence[str]) -> list[str]:
        """Put the plan of each node into the store; gives the URL of each."""
        lent = [[self._lent(number, case) for case in self.cases] for number in range(len(nodes))]
        return [self._plan(number, nodes, lent) for number in range(len(nodes))]

    def _plan(self, number: int, nodes: Sequence[str], lent: Sequence[Sequence[Mapping[str, Any]]]) -> str:
        """Have a node write its own objects, and read them, or those of the node before it."""
        other = number if self.own else (number - 1) % len(nodes)
        plan = [
            {
                "size": case.size,
                "passes": case.passes,
                "length": case.piece,
                "write": mine,
                "read": {"seed": theirs["seed"], "from": nodes[other], "pieces": theirs["pieces"]},
            }
            for case, mine, theirs in zip(self.cases, lent[number], lent[other], strict=True)
        ]
        key = self.place.key(f"plans/{number}")
        self.place.client.put_object(Bucket=self.place.bucket, Key=key, Body=json.dumps(plan).encode())
        return self._url("get_object", key)

    def _lent(self, number: int, case: Case) -> dict[str, Any]:
        seed = f"{self.place.prefix}/{number}/{case.size}"
        names = [f"{number}/{case.size}/{count}" for count in range(case.objects)]
        if case.parts == 1:
            keys = map(self.place.key, names)
            return {"seed": seed, "pieces": [self._whole(n, key, case) for n, key in enumerate(keys)]}
        pieces: list[dict[str, Any]] = []
        complete: list[list[dict[str, Any]]] = [[] for _ in range(self.rounds)]
        for name in names:
            uploads = [self.place.upload(name) for _ in range(self.rounds)]
            numbers = [len(pieces) + part for part in range(case.parts)]
            pieces += [self._part(n, uploads, part, case) for part, n in enumerate(numbers)]
            for one, (key, upload) in zip(complete, uploads, strict=True):
                url = self._url("complete_multipart_upload", key, UploadId=upload)
                one.append({"url": url, "pieces": numbers})
        return {"seed": seed, "pieces": pieces, "complete": complete}

    def _whole(self, n: int, key: str, case: Case) -> dict[str, Any]:
        put, get = self._url("put_object", key), self._url("get_object", key)
        return {"n": n, "size": case.piece, "put": [put], "get": get, "from": 0, "part": False}

    def _part(self, n: int, uploads: Sequence[tuple[str, str]], part: int, case: Case) -> dict[str, Any]:
        put = [self._url("upload_part", key, UploadId=one, PartNumber=part + 1) for key, one in uploads]
        get = self._url("get_object", uploads[0][0])
        return {"n": n, "size": case.piece, "put": put, "get": get, "from": part * case.piece, "part": True}

    def _url(self, method: str, key: str, **more: str | int) -> str:
        named = {"Bucket": self.place.bucket, "Key": key, **more}
        url: str = self.place.client.generate_presigned_url(method, Params=named, ExpiresIn=self.seconds)
        return url
