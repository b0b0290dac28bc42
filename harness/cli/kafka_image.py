"""`ebbtide kafka image build | list | remove`: Docker images with Kafka."""

from __future__ import annotations

from contextlib import closing

import msgspec

from ebbtide.errors import ExitCode
from harness.cli import completing, options
from harness.cli.command import Args, Group
from harness.cli.option_values import versions_of
from harness.cli.output import print_json, print_table


def command() -> Group:
    """Declare the actions."""
    group = Group(
        "Build Docker images with Kafka from the fetched jars and this host's Java, without a registry.",
        dest="action",
        metavar="ACTION",
    )
    build = group.action(
        "build",
        help="build images of Kafka releases",
        description="Build ebbtide/kafka:RELEASE. Fetches a missing release, and reuses unchanged layers.",
    )
    listed = group.action(
        "list", help="list the images that were built here", description="List the images that were built here."
    )
    remove = group.action(
        "remove",
        help="remove images that were built here",
        description="Remove ebbtide/kafka:RELEASE. A missing image is not an error. Other images stay.",
    )
    for action in (build, listed, remove):
        options.add_json_option(action)
    for action in (build, remove):
        action.argument(
            "versions",
            many=True,
            metavar="RELEASE",
            completes=completing.complete_releases,
            help="a Kafka release such as 4.3.1",
        )
    return group


def run(args: Args) -> ExitCode:
    """Build, list or remove images."""
    if args.action == "list":
        return _list(as_json=args.json)
    wanted = versions_of(args.versions)
    return _build(wanted, as_json=args.json) if args.action == "build" else _remove(wanted, as_json=args.json)


def _build(versions: list[str], *, as_json: bool) -> ExitCode:
    import sys
    import time

    from cluster.host.containers import connect
    from cluster.images.build import build_image
    from cluster.images.find import BuiltImage, built_images

    def note(text: str) -> None:
        print(text, file=sys.stderr if as_json else sys.stdout, flush=True)

    with closing(connect()) as client:
        for version in versions:
            started = time.monotonic()
            image = build_image(client, version, note)
            took_s = time.monotonic() - started
            size = next((built.size_bytes for built in built_images(client) if built.id == image.id), 0)
            if as_json:
                print_json(BuiltImage(kafka=version, reference=image.reference, id=image.id, size_bytes=size))
                continue
            print(f"{image.reference}: {size / 1e6:.0f} MB, {image.id[:19]}, in {took_s:.1f} s", flush=True)
    return ExitCode.AS_PREDICTED


def _list(*, as_json: bool) -> ExitCode:
    from cluster.host.containers import connect
    from cluster.images.find import built_images

    with closing(connect()) as client:
        images = built_images(client)
    if as_json:
        for image in images:
            print_json(image)
        return ExitCode.AS_PREDICTED
    if not images:
        print("no image was built here\nnext: ebbtide kafka image build RELEASE")
        return ExitCode.AS_PREDICTED
    print_table(
        ("release", "image", "id", "size"),
        [(image.kafka, image.reference, image.id[:19], f"{image.size_bytes / 1e6:.0f} MB") for image in images],
    )
    return ExitCode.AS_PREDICTED


class RemovedImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image of a release that was to be removed; `removed` is false where there was none."""

    kafka: str
    removed: bool


def _remove(versions: list[str], *, as_json: bool) -> ExitCode:
    from cluster.host.containers import connect
    from cluster.images.find import remove_image

    with closing(connect()) as client:
        for version in versions:
            removed = remove_image(client, version)
            if as_json:
                print_json(RemovedImage(kafka=version, removed=removed))
            else:
                print(f"Kafka {version}: {'removed' if removed else 'no image here'}", flush=True)
    return ExitCode.AS_PREDICTED
