"""Measures the relay of published ports: `python -m bench.relay [ROUNDS]`.

It needs neither Kafka nor root. A server answers framed requests as a broker does, on loopback; a client produces
batches to it, with five requests in flight, and fetches. With --broker a real broker takes the server's place:

    ebbtide cluster up brokers=1 && ebbtide cluster topic t replication_factor=1 min_isr=1
    ebbtide cluster exec -- sh -c 'python -m bench.relay 20 --share 0.5 --broker $EBBTIDE_BOOTSTRAP'

In each round it does so directly, through the relay that
records, with its decoder beside it, through the same relay that does not record, and through the port of before
(asyncio streams in a thread). Each has processes of its own, and a decoder runs only while its relay is measured. The
order changes from round to round. The CPU time of what passes the bytes on is measured too: unlike a rate, it hardly
depends on what else the host does.

With --sustained it measures what a client gets that produces for long: before the spool is full, and once clients wait
for the decoder.

Targets: recording, at least 0.7 of the rate without; not below the port of before; the p50 of one send at most 0.5 ms
more than without recording. A rate is compared with that of the same round, and the median of the rounds counts. The
exit code is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, median

from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from cluster.host.host_ports import RELAY
from cluster.relay.spool import Handles, new_spool
from ebbtide import run_clock
from ebbtide.command import module_command

Address = tuple[str, int]

PRODUCE, FETCH = 0, 1
PRODUCE_VERSION, FETCH_VERSION = 9, 11
BATCH_BYTES, FETCH_BYTES = 64 << 10, 1 << 20
PRODUCED_BYTES, FETCHED_BYTES = 8 << 20, 32 << 20
FILLING_BYTES, SUSTAINED_BYTES = 512 << 20, 64 << 20
IN_FLIGHT, SENDS = 5, 100
SIZES = (100, 1000)
RATIO_MIN, MORE_MS_MAX = 0.7, 0.5
WAYS = ("direct", "relay, recording", "relay, not recording", "port of before")


def batch(record_bytes: int, size: int) -> bytes:
    """One batch of records of this size, of about `size` bytes in all."""
    records = max(1, size // record_bytes)
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=2 * size + 1024,
    )  # fmt: skip
    now_ms = int(time.time() * 1000)  # a broker deletes what is older than its retention
    for at in range(records):
        builder.append(at, timestamp=now_ms, key=None, value=os.urandom(record_bytes), headers=[])
    return bytes(builder.build())


def produce_frame(records: bytes) -> bytes:
    """A request to produce to one partition."""
    kind = ProduceRequest.TopicProduceData
    item = kind.PartitionProduceData(index=0, records=records)
    topics = [kind(name="t", partition_data=[item])]
    return _framed(ProduceRequest(transactional_id=None, acks=1, timeout_ms=1, topic_data=topics), PRODUCE_VERSION)


def fetch_frame() -> bytes:
    """A request to fetch from one partition."""
    kind = FetchRequest.FetchTopic
    item = kind.FetchPartition(
        partition=0, current_leader_epoch=-1, fetch_offset=0, log_start_offset=-1, partition_max_bytes=FETCH_BYTES
    )
    request = FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=FETCH_BYTES, isolation_level=0, session_id=0,
        session_epoch=-1, topics=[kind(topic="t", partitions=[item])], forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    return _framed(request, FETCH_VERSION)


def answers(record_bytes: int) -> dict[int, bytes]:
    """The answer to each API; the client puts nothing into a request that would change it."""
    produced = ProduceResponse.TopicProduceResponse
    result = produced.PartitionProduceResponse(index=0, error_code=0, base_offset=0, log_append_time_ms=-1)
    kind = FetchResponse.FetchableTopicResponse
    item = kind.PartitionData(
        partition_index=0, error_code=0, high_watermark=1, last_stable_offset=1, log_start_offset=0,
        aborted_transactions=None, preferred_read_replica=-1, records=batch(record_bytes, FETCH_BYTES),
    )  # fmt: skip
    fetched = [kind(topic="t", partitions=[item])]
    return {
        PRODUCE: _framed(
            ProduceResponse(responses=[produced(name="t", partition_responses=[result])], throttle_time_ms=0),
            PRODUCE_VERSION,
        ),
        FETCH: _framed(FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=fetched), FETCH_VERSION),
    }


def _framed(message: object, version: int) -> bytes:
    message.API_VERSION = version  # type: ignore[attr-defined]
    message.with_header(correlation_id=0)  # type: ignore[attr-defined]
    return bytes(message.encode(header=True, framed=True))  # type: ignore[attr-defined]


def serve(handle: int, record_bytes: int, work_us: int) -> None:
    """Answer each request on each connection of the inherited socket `handle`, after so much work on each."""
    listener, ready = socket.socket(fileno=handle), answers(record_bytes)

    def serve_one(connection: socket.socket) -> None:
        buffer = bytearray(1 << 20)
        with connection, contextlib.suppress(OSError):
            while len(head := connection.recv(12, socket.MSG_WAITALL)) == 12:
                length, api, _, correlation = struct.unpack(">ihhi", head)
                _skip(connection, length - 8, buffer)
                until = time.thread_time() + work_us / 1e6
                while time.thread_time() < until:
                    pass
                answer = ready[api]
                connection.sendmsg([answer[:4] + struct.pack(">i", correlation), memoryview(answer)[8:]])

    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve_one, args=(connection,), daemon=True).start()


def _skip(end: socket.socket, size: int, buffer: bytearray) -> None:
    view = memoryview(buffer)
    while size:
        got = end.recv_into(view[: min(size, len(buffer))])
        if not got:
            raise OSError("the other end closed the connection")
        size -= got


def pass_on_as_before(listen: int, host: str, port: int) -> None:
    """Serve the inherited socket as the port of before did: asyncio streams, and chunks of 64 KiB."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(1 << 16):
                writer.write(chunk)
                await writer.drain()

    async def pass_between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, port)
        ways = [asyncio.ensure_future(pass_on(reader, far_writer)), asyncio.ensure_future(pass_on(far_reader, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        writer.close()
        far_writer.close()

    async def run() -> None:
        await (await asyncio.start_server(pass_between, sock=socket.socket(fileno=listen))).serve_forever()

    thread = threading.Thread(target=partial(asyncio.run, run()), daemon=True)
    thread.start()
    thread.join()


class Client:
    """A connection that produces and fetches."""

    def __init__(self, address: Address) -> None:
        self._end = socket.create_connection(address)
        self._end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(1 << 20)
        self._correlation = 0

    def ask(self, frame: bytes) -> None:
        """Send a request, under a correlation id of its own."""
        self._correlation += 1
        self._end.sendmsg([frame[:8] + struct.pack(">i", self._correlation), memoryview(frame)[12:]])

    def hear(self) -> int:
        """Read one whole answer, and return its size."""
        (length,) = struct.unpack(">i", self._end.recv(4, socket.MSG_WAITALL))
        _skip(self._end, length, self._buffer)
        return int(length)

    def mb_per_s(self, frame: bytes, count: int, frame_bytes: int) -> float:
        """How fast this many requests pass, with some in flight."""
        began = time.perf_counter()
        for at in range(count + IN_FLIGHT):
            if at < count:
                self.ask(frame)
            # An answer to Fetch without records would make any way fast.
            if at >= IN_FLIGHT and len(frame) + self.hear() < frame_bytes / 2:
                raise SystemExit("the broker answered without records: it has no topic t of one partition")
        return count * frame_bytes / 1e6 / (time.perf_counter() - began)

    def send_ms(self, frame: bytes) -> float:
        """The median time of one small request and its answer."""
        took = []
        for _ in range(SENDS):
            began = time.perf_counter()
            self.ask(frame)
            self.hear()
            took.append((time.perf_counter() - began) * 1000)
        return median(took)


@contextlib.contextmanager
def started(words: list[str], *inherited: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process during the block."""
    with subprocess.Popen(words, pass_fds=inherited) as process:
        try:
            yield process
        finally:
            process.kill()


class Way:
    """A port that leads to the server, and the process that passes the bytes on; none: the server's own port."""

    def __init__(self, address: Address, relay: int | None = None, decoder: int | None = None) -> None:
        self._relay, self._decoder = relay, decoder
        self.client = Client(address)

    @contextlib.contextmanager
    def decoding(self) -> Iterator[None]:
        """Let the decoder run during the block."""
        if self._decoder is None:
            yield
            return
        os.kill(self._decoder, signal.SIGCONT)
        try:
            yield
        finally:
            os.kill(self._decoder, signal.SIGSTOP)

    def measure(self, frames: Mapping[int, bytes], small: bytes, share: float) -> Figures:
        """Measure it once."""
        found = []
        with self.decoding():
            sent_ms = self.client.send_ms(small)
            for api, total, each in ((PRODUCE, PRODUCED_BYTES, BATCH_BYTES), (FETCH, FETCHED_BYTES, FETCH_BYTES)):
                count, began_s = max(1, int(total * share) // each), cpu_s(self._relay)
                mb_per_s = self.client.mb_per_s(frames[api], count, each)
                found += [mb_per_s, (cpu_s(self._relay) - began_s) / (count * each / 1e9)]
        return found[0], found[2], sent_ms, found[1], found[3]


Figures = tuple[float, float, float, float, float]
"""MB/s produced and fetched, the median milliseconds of one send, and CPU seconds for each GB produced and fetched."""


def opened(name: str, server: Address, stack: contextlib.ExitStack) -> Way:
    """Open the way of this name, until the stack ends."""
    if name == "direct":
        return Way(server)
    listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=16))
    listen, address = listening.fileno(), listening.getsockname()
    if name == "port of before":
        words = [sys.executable, "-m", "bench.relay", "--before", str(listen), *map(str, server)]
        return Way(address, stack.enter_context(started(words, listen)).pid)
    ready, written = os.pipe()
    words = [*RELAY, "--listen", f"{listen}={server[0]}:{server[1]}"]
    words += ["--ready", str(written), "--clock-base", str(run_clock.base_ns())]
    decoder: int | None = None
    spool: Handles | tuple[()] = ()
    if name == "relay, recording":
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ebbtide-relay-")))
        spool, reader = stack.enter_context(new_spool())
        words += ["--spool", *map(str, spool)]
        decode = [*module_command("cluster.relay.decode"), "--spool", *map(str, reader), "--clock-base", "0"]
        decode += ["--table", str(folder / "wire" / "relay.parquet"), "--facts", str(folder / "facts")]
        decoder = stack.enter_context(started([*decode, "--bootstrap", "127.0.0.1:1"], *reader)).pid
    relay = stack.enter_context(started(words, listen, written, *spool))
    os.read(ready, 1)
    for end in (ready, written):
        os.close(end)
    return Way(address, relay.pid, decoder)


def cpu_s(process: int | None) -> float:
    """The CPU time of a process so far; 0: no process."""
    return time.clock_gettime(~process << 3 | 2) if process else 0.0  # clock_getcpuclockid(3)


def measure_all(
    rounds: int, share: float, work_us: int, broker: Address | None
) -> dict[tuple[int, str], list[Figures]]:
    """The figures of each round, by size and way."""
    found: dict[tuple[int, str], list[Figures]] = {}
    for size in SIZES:
        with socket.create_server(("127.0.0.1", 0), backlog=16) as listener, contextlib.ExitStack() as stack:
            words = [sys.executable, "-m", "bench.relay", "--serve", *map(str, (listener.fileno(), size, work_us))]
            if broker is None:
                stack.enter_context(started(words, listener.fileno()))
            ways = {name: opened(name, broker or listener.getsockname(), stack) for name in WAYS}
            frames = {PRODUCE: produce_frame(batch(size, BATCH_BYTES)), FETCH: fetch_frame()}
            small = produce_frame(batch(size, 1))
            for number in range(rounds):
                for name in WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]:
                    found.setdefault((size, name), []).append(ways[name].measure(frames, small, share))
    return found


def print_sustained() -> None:
    """Print how fast the relay that records takes batches until its spool is full, and from then on."""
    for size in SIZES:
        with socket.create_server(("127.0.0.1", 0), backlog=16) as listener, contextlib.ExitStack() as stack:
            words = [sys.executable, "-m", "bench.relay", "--serve", *map(str, (listener.fileno(), size, 0))]
            stack.enter_context(started(words, listener.fileno()))
            way = opened("relay, recording", listener.getsockname(), stack)
            frame = produce_frame(batch(size, BATCH_BYTES))
            first, _, later = (
                way.client.mb_per_s(frame, bytes_ // BATCH_BYTES, BATCH_BYTES)
                for bytes_ in (FILLING_BYTES // 2, FILLING_BYTES // 2, SUSTAINED_BYTES)
            )
            print(f"{size:>6} B  sustained: {first:.0f} MB/s, and {later:.1f} MB/s once the spool is full", flush=True)


def medians(rounds: Sequence[Figures]) -> list[float]:
    """The median of each figure."""
    return [median(column) for column in zip(*rounds, strict=True)]


def share_of(found: Sequence[Figures], other: Sequence[Figures], at: int) -> float:
    """The median over the rounds of one rate as a share of another's."""
    return median(one[at] / two[at] for one, two in zip(found, other, strict=True))


def missed(found: Mapping[tuple[int, str], Sequence[Figures]], strict: int, more_ms_max: float) -> Iterator[str]:
    """Yield a sentence for each target that was missed; rates have none if `strict` is 0."""
    for size in SIZES:
        recording, plain, before = (found[size, way] for way in WAYS[1:])
        for at, what in enumerate(("produce", "consume")):
            for other, name, least in ((plain, "the relay that does not record", RATIO_MIN), (before, WAYS[3], 1.0)):
                if (share := share_of(recording, other, at)) < strict * least:
                    yield f"{what} at {size} B: {share:.2f} of {name}, at least {least} is asked for"
        if (more_ms := medians(recording)[2] - medians(plain)[2]) > more_ms_max:
            yield f"one send at {size} B: {more_ms:.2f} ms more"


def main() -> int:
    """Measure, and print medians side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=20)
    parser.add_argument("--share", type=float, default=1.0, help="the share of the usual bytes")
    parser.add_argument("--work-us", type=int, default=0, metavar="US", help="CPU time of the server for a request")
    parser.add_argument("--broker", metavar="HOST:PORT", help="a broker with the topic t of one partition")
    parser.add_argument("--any-rate", action="store_true", help="no target for rates: for a host with other work")
    parser.add_argument("--max-added-ms", type=float, default=MORE_MS_MAX, metavar="MS", help="target of one send")
    parser.add_argument("--sustained", action="store_true", help="measure only what a client gets for long")
    parser.add_argument("--serve", nargs=3, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--before", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(*args.serve)
    if args.before:
        listen, host, port = args.before
        pass_on_as_before(int(listen), host, int(port))
    if args.sustained:
        print_sustained()
        return 0
    host, _, port = (args.broker or "").rpartition(":")
    found = measure_all(args.rounds, args.share, args.work_us, (host, int(port)) if args.broker else None)
    print("record    way                     produce      consume     one send (p50)   CPU produce, consume")
    for (size, way), rounds in found.items():
        produced, fetched, sent_ms, *_ = medians(rounds)
        cpu = [mean(row[at] for row in rounds) for at in (3, 4)]
        print(
            f"{size:>6} B  {way:<22}{produced:>6.0f} MB/s  {fetched:>6.0f} MB/s  {sent_ms:>9.3f} ms  "
            f"{cpu[0]:>7.2f} {cpu[1]:>7.2f} s/GB"
        )
    for size in SIZES:
        shares = [share_of(found[size, WAYS[1]], found[size, way], at) for way in WAYS[2:] for at in (0, 1)]
        print(
            f"{size:>6} B  recording as a share: produce {shares[0]:.2f}, consume {shares[1]:.2f} of not recording;"
            f" {shares[2]:.2f}, {shares[3]:.2f} of the port of before"
        )
    reasons = list(missed(found, 0 if args.any_rate else 1, args.max_added_ms))
    print("\n".join(f"MISSED: {reason}" for reason in reasons) or "all targets met")
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
