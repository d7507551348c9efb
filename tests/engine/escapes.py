"""The escape attempts: each with the rule that must stop it, and whether it gets out without the gate."""

from dataclasses import dataclass

from tests.engine.attacker import JSON, REACHED, writes_setting
from tests.engine.ways import (
    PRIVILEGED,
    Try,
    big_body,
    build,
    by_api,
    by_cli,
    cdi,
    cgroup_rule,
    changes_settings,
    chunked,
    copy_through_a_turned_link,
    debug_variables,
    exec_privileged,
    finds,
    from_checkpoint,
    gains,
    invalid_utf8,
    ipc,
    link,
    log_driver,
    mount,
    opens_gpu,
    plants,
    plugin,
    privileged,
    raw_device,
    sees,
    swarm,
    update_device,
    uts,
    volume,
)


@dataclass(frozen=True)
class Attempt:
    """One way out. `harmless` says why it gets nowhere on this kernel and engine even without the gate.

    `large` is one whose body not every engine shows to its plugins.
    """

    id: str
    rule: str
    act: Try
    harmless: str = ""
    large: bool = False


TWO_TYPES = (("Content-Type", "application/json"), ("Content-Type", "text/plain"))

_BUILT_IN = "the engine refuses it by itself"

ATTEMPTS = (
    # Devices, by every field and every client's spelling.
    Attempt("privileged", "privileged", opens_gpu("--privileged")),
    Attempt("device-by-path", "raw-device", opens_gpu("--device", "{a.gpu.host_path}")),
    Attempt(
        "device-by-path-renamed",
        "raw-device",
        opens_gpu("--device", "{a.gpu.host_path}:/dev/null2:r", node="/dev/null2"),
    ),
    Attempt(
        "device-with-dots",
        "raw-device",
        opens_gpu("--device", "/dev/../dev/{a.gpu.host_path}:/dev/g", node="/dev/g"),
        "the client cleans no path, and this one does not exist",
    ),
    Attempt("device-directory", "raw-device", opens_gpu("--device", "/dev:/dev/all", node="/dev/all/fuse")),
    Attempt("cgroup-rule-and-mknod", "device-cgroup-rule", cgroup_rule),
    Attempt(
        "cdi-without-grant",
        "device-not-granted",
        opens_gpu("--device", "nvidia.com/gpu=0", node="/dev/nvidia0"),
    ),
    Attempt(
        "cdi-all-without-grant",
        "device-not-granted",
        opens_gpu("--device", "nvidia.com/gpu=all", node="/dev/nvidia0"),
    ),
    Attempt(
        "cdi-by-gpus-flag",
        "device-request-form",
        opens_gpu("--gpus", "driver=cdi,device=nvidia.com/gpu=0", node="/dev/nvidia0"),
    ),
    Attempt("cdi-by-api", "device-not-granted", cdi({"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]})),
    Attempt(
        "cdi-with-count",
        "device-request-form",
        cdi({"Driver": "cdi", "Count": -1, "DeviceIDs": ["nvidia.com/gpu=0"]}),
        _BUILT_IN,
    ),
    Attempt(
        "cdi-with-capabilities",
        "device-request-form",
        cdi({"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"], "Capabilities": [["gpu"]]}),
    ),
    Attempt(
        "cdi-with-options",
        "device-request-form",
        cdi({"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"], "Options": {"a": "b"}}),
        _BUILT_IN,
    ),
    Attempt(
        "gpus-all",
        "device-request-form",
        opens_gpu("--gpus", "all", node="/dev/nvidia0"),
        "no driver for it is installed",
    ),
    Attempt(
        "cdi-upper-case-driver",
        "device-request-form",
        cdi({"Driver": "CDI", "DeviceIDs": ["nvidia.com/gpu=0"]}),
        _BUILT_IN,
    ),
    Attempt(
        "cdi-annotation",
        "annotation",
        opens_gpu("--annotation", "cdi.k8s.io/x=nvidia.com/gpu=0", node="/dev/nvidia0"),
        "runc does not obey it; crun does",
    ),
    Attempt("device-by-update", "raw-device", update_device, "the engine drops the field"),
    # JSON as Go reads it.
    Attempt("lower-case-keys", "unreadable-request", privileged('{%s,"hostconfig":{"privileged":true}}')),
    Attempt("upper-case-keys", "unreadable-request", privileged('{%s,"HOSTCONFIG":{"PRIVILEGED":true}}')),
    Attempt(
        "long-s-in-a-key", "unreadable-request", privileged('{%s,"Ho\u017ftConfig":{"Privileged":true}}')
    ),
    Attempt(
        "escaped-long-s-in-a-key",
        "unreadable-request",
        privileged('{%s,"Ho\\u017ftConfig":{"Privileged":true}}'),
    ),
    Attempt("escaped-key", "privileged", privileged('{%s,"\\u0048ostConfig":{"\\u0050rivileged":true}}')),
    Attempt(
        "two-host-configs",
        "unreadable-request",
        privileged('{%s,"HostConfig":{"Privileged":true},"HostConfig":{}}'),
    ),
    Attempt(
        "true-then-null",
        "unreadable-request",
        privileged('{%s,"HostConfig":{"Privileged":true,"Privileged":null}}'),
    ),
    Attempt(
        "false-then-true-in-another-case",
        "unreadable-request",
        privileged('{%s,"HostConfig":{"Privileged":false,"privileged":true}}'),
    ),
    Attempt(
        "stale-device-element",
        "unreadable-request",
        raw_device('{%s,"HostConfig":{"Devices":[%d],"Devices":[{}]}}'),
    ),
    Attempt("device-key-folded", "unreadable-request", raw_device('{%s,"HostConfig":{"Device\u017f":[%d]}}')),
    Attempt("closing-brace-behind", "unreadable-request", privileged(PRIVILEGED + "} and more")),
    Attempt("harmless-object-behind", "unreadable-request", privileged(PRIVILEGED + '] {"Image":"x"}')),
    Attempt("invalid-utf8-beside", "unreadable-request", invalid_utf8),
    Attempt(
        "lone-surrogate-beside",
        "unreadable-request",
        privileged('{%s,"Labels":{"x":"\\ud800"},"HostConfig":{"Privileged":true}}'),
    ),
    # The request line, headers and framing.
    Attempt(
        "percent-in-the-path", "unreadable-request", privileged(PRIVILEGED, "POST /%63ontainers/cre%61te")
    ),
    Attempt(
        "escaped-slash-in-the-path", "unreadable-request", privileged(PRIVILEGED, "POST /containers%2Fcreate")
    ),
    Attempt("odd-version", "unreadable-request", privileged(PRIVILEGED, "POST /v1.044/containers/create")),
    Attempt(
        "version-with-more-parts",
        "unreadable-request",
        privileged(PRIVILEGED, "POST /v1.44.0.9/containers/create"),
    ),
    Attempt(
        "version-with-a-dot-behind",
        "unreadable-request",
        privileged(PRIVILEGED, "POST /v1.44./containers/create"),
    ),
    Attempt(
        "absolute-target",
        "unreadable-request",
        privileged(PRIVILEGED, "POST http://docker/v1.44/containers/create"),
    ),
    Attempt(
        "bad-fragment-hides-the-body",
        "unreadable-request",
        privileged(PRIVILEGED, "POST /containers/create?#%zz"),
        _BUILT_IN,
    ),
    Attempt("auth-in-the-query", "privileged", privileged(PRIVILEGED, "POST /containers/create?x=/auth")),
    Attempt("two-content-types", "privileged", privileged(PRIVILEGED, headers=TWO_TYPES)),
    Attempt(
        "content-type-parameters",
        "privileged",
        privileged(PRIVILEGED, headers=(("Content-Type", "Application/JSON; charset=utf-16"),)),
    ),
    Attempt(
        "gzip-claimed", "privileged", privileged(PRIVILEGED, headers=(*JSON, ("Content-Encoding", "gzip")))
    ),
    Attempt(
        "method-override",
        "privileged",
        privileged(PRIVILEGED, headers=(*JSON, ("X-HTTP-Method-Override", "GET"))),
    ),
    Attempt("chunked-body", "privileged", chunked),
    Attempt("body-over-1-mib", "privileged", big_body, large=True),
    Attempt(
        "body-of-another-type",
        "unreadable-request",
        privileged(PRIVILEGED, headers=(("Content-Type", "text/plain"),)),
        _BUILT_IN,
    ),
    Attempt(
        "content-length-0-and-a-body", "unreadable-request", privileged(PRIVILEGED, length="0"), _BUILT_IN
    ),
    # Root on the host.
    Attempt("bind-root", "bind-hardware", finds("/host/etc/passwd", "-v", "/:/host")),
    Attempt(
        "bind-root-with-dots",
        "bind-hardware",
        by_api({"Binds": ["/srv/../:/host"]}, sees("/host/etc/passwd")),
    ),
    Attempt("bind-dev", "bind-hardware", finds("/d/fuse", "-v", "/dev:/d")),
    Attempt(
        "bind-dev-with-two-slashes", "bind-hardware", by_api({"Binds": ["//dev//:/d:ro"]}, sees("/d/fuse"))
    ),
    Attempt("bind-proc", "bind-hardware", changes_settings("-v", "/proc:/p", directory="/p/sys")),
    Attempt("bind-sys", "bind-hardware", finds("/s/class", "-v", "/sys:/s")),
    Attempt(
        "bind-proc-root",
        "bind-hardware",
        finds("/x/passwd", "-v", "/proc/1/root/etc:/x"),
        "this kernel lets nobody follow that link",
    ),
    Attempt("bind-grants", "bind-control", plants("/x", "-v", "{a.layout.root}/etc/rediacc:/x")),
    Attempt("bind-specs", "bind-control", plants("/x", "-v", "{a.layout.cdi_dir}:/x")),
    Attempt("bind-above-the-grants", "bind-control", plants("/x", "-v", "/tmp:/x")),
    Attempt("bind-plugin-sockets", "bind-control", plants("/x", "-v", "{a.layout.plugin_dir}:/x")),
    Attempt("bind-own-data-root", "bind-control", plants("/x", "-v", "{a.daemon.data_root}:/x")),
    Attempt("bind-docker-run", "bind-control", plants("/x", "-v", "/run/docker:/x")),
    Attempt("bind-etc", "bind-control", finds("/x/shadow", "-v", "/etc:/x")),
    Attempt("bind-system-directory", "bind-system", plants("/x", "-v", "/usr/local/src:/x")),
    Attempt("bind-one-system-file", "bind-system", finds("/x", "-v", "/etc/shadow:/x")),
    Attempt("bind-everyday-file-writable", "bind-system", finds("/x", "-v", "/etc/passwd:/x")),
    Attempt(
        "mount-dev",
        "bind-hardware",
        mount({"Type": "bind", "Source": "/dev", "Target": "/d"}, sees("/d/fuse")),
    ),
    Attempt("link-to-dev", "bind-hardware", link("/dev", sees("/x/fuse"))),
    Attempt("copy-through-a-turned-link", "bind-control", copy_through_a_turned_link),
    Attempt("link-to-root", "bind-hardware", link("/", sees("/x/etc/passwd"))),
    Attempt(
        "volume-bind-root",
        "bind-hardware",
        volume({"type": "none", "o": "bind", "device": "/"}, sees("/v/etc/passwd")),
    ),
    Attempt(
        "volume-bind-whatever-the-type",
        "raw-mount",
        volume({"type": "nfs", "o": "addr=127.0.0.1,rbind", "device": "/dev"}, sees("/v/fuse")),
    ),
    Attempt(
        "volume-bind-through-dots",
        "bind-hardware",
        volume({"type": "none", "o": "bind", "device": "{a.files}/../../../../dev"}, sees("/v/fuse")),
    ),
    Attempt(
        "volume-devtmpfs", "raw-mount", volume({"type": "devtmpfs", "device": "devtmpfs"}, sees("/v/fuse"))
    ),
    Attempt("volume-proc", "raw-mount", volume({"type": "proc", "device": "proc"}, writes_setting("/v/sys"))),
    Attempt("volume-sysfs", "raw-mount", volume({"type": "sysfs", "device": "sysfs"}, sees("/v/class"))),
    Attempt(
        "volume-overlay",
        "raw-mount",
        volume({"type": "overlay", "device": "overlay", "o": "lowerdir=/etc:/srv"}, sees("/v/passwd")),
    ),
    Attempt(
        "mount-volume-with-options",
        "bind-hardware",
        mount(
            {
                "Type": "volume",
                "Target": "/v",
                "VolumeOptions": {
                    "DriverConfig": {"Name": "local", "Options": {"type": "none", "o": "bind", "device": "/"}}
                },
            },
            sees("/v/etc/passwd"),
        ),
    ),
    Attempt(
        "pid-host",
        "host-pid",
        by_cli("--pid", "host", do=f"grep -aq 'docker[d]' /proc/[0-9]*/cmdline && echo {REACHED}"),
    ),
    Attempt("exec-privileged", "privileged", exec_privileged),
    Attempt(
        "unmasked-by-the-api",
        "unmasked-paths",
        by_api({"MaskedPaths": [], "ReadonlyPaths": []}, writes_setting()),
    ),
    Attempt("masks-shortened", "unmasked-paths", by_api({"ReadonlyPaths": ["/proc/bus"]}, writes_setting())),
    Attempt(
        "systempaths-unconfined",
        "unmasked-paths",
        changes_settings("--security-opt", "systempaths=unconfined"),
    ),
    Attempt(
        "capability-all",
        "kernel-capability",
        changes_settings("--cap-add", "ALL", before="mkdir /m; mount -t proc p /m; ", directory="/m/sys"),
    ),
    Attempt(
        "capability-sys-admin",
        "kernel-capability",
        changes_settings(
            "--cap-add", "sys_admin", before="mkdir /m; mount -t proc p /m; ", directory="/m/sys"
        ),
    ),
    Attempt("capability-sys-module", "kernel-capability", gains("CAP_SYS_MODULE", 16)),
    Attempt("capability-sys-rawio", "kernel-capability", gains("SYS_RAWIO", 17)),
    Attempt("capability-dac-read-search", "kernel-capability", gains("DAC_READ_SEARCH", 2)),
    Attempt("capability-sys-time", "kernel-capability", gains("SYS_TIME", 25)),
    Attempt("capability-net-admin", "extra-capability", gains("NET_ADMIN", 12)),
    Attempt(
        "seccomp-unconfined",
        "security-option",
        by_cli(
            "--security-opt",
            "seccomp=unconfined",
            do=f"grep -q 'Seccomp:.0' /proc/self/status && echo {REACHED}",
        ),
    ),
    Attempt(
        "seccomp-with-a-colon",
        "security-option",
        by_api(
            {"SecurityOpt": ["seccomp:unconfined"]},
            f"grep -q 'Seccomp:.0' /proc/self/status && echo {REACHED}",
        ),
    ),
    Attempt("ipc-host", "host-ipc", ipc),
    Attempt("uts-host", "host-uts", uts),
    Attempt(
        "cgroupns-host",
        "host-cgroupns",
        by_cli("--cgroupns", "host", do=f"grep -qv ':/$' /proc/self/cgroup && echo {REACHED}"),
    ),
    Attempt(
        "cgroup-parent",
        "annotation",
        by_cli(
            "--cgroup-parent",
            "/way-out",
            "--cgroupns",
            "private",
            do=f"grep -q way-out /proc/self/mountinfo && echo {REACHED}",
        ),
        "the container's own view hides it",
    ),
    Attempt("log-driver", "security-option", log_driver),
    Attempt("swarm", "swarm", swarm),
    Attempt("managed-plugin", "managed-plugin", plugin),
    Attempt(
        "another-runtime",
        "runtime",
        opens_gpu("--runtime", "io.containerd.other.v1"),
        "no such shim is installed",
    ),
    Attempt("userns-host", "host-userns", changes_settings("--userns", "host"), "this daemon maps no users"),
    Attempt(
        "shared-propagation",
        "raw-mount",
        finds("/x/none", "-v", "{a.files}:/x:rshared"),
        "the container may not mount",
    ),
    Attempt("tmpfs-that-binds", "raw-mount", finds("/t/etc/passwd", "--tmpfs", "/t:rbind"), _BUILT_IN),
    Attempt("build-cgroup-parent", "annotation", build("version=1&cgroupparent=/way-out")),
    Attempt("start-from-checkpoint", "checkpoint", from_checkpoint, "only an experimental daemon has them"),
    Attempt(
        "sysctl-of-the-host",
        "security-option",
        by_api({"Sysctls": {"kernel.panic": "0"}}, f"echo {REACHED}"),
        "runc refuses it",
    ),
    Attempt("debug-endpoint", "unknown-endpoint", debug_variables, "only a daemon in debug mode has them"),
    Attempt(
        "volume-driver-of-another",
        "raw-mount",
        volume({}, "true", driver="way-out"),
        "no such driver is installed",
    ),
)
