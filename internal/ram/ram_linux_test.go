package ram

import (
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// TestGroups checks the limits of control groups: of version 1 and 2, nested, and as containers see them.
func TestGroups(t *testing.T) {
	const v2 = "24 1 0:21 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	const v1 = "24 1 0:21 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n" +
		"31 24 0:26 / /sys/fs/cgroup/cpu rw shared:1 - cgroup cgroup rw,cpu,cpuacct\n" +
		"33 24 0:28 / /sys/fs/cgroup/memory rw shared:2 - cgroup cgroup rw,memory\n"
	for _, c := range []struct {
		what           string
		mounts, groups string
		files          map[string]string
		want           int64
	}{
		{"none", "", "", nil, math.MaxInt64},
		{"version 2, own group", v2, "0::/\n", map[string]string{"sys/fs/cgroup/memory.max": "1000\n"}, 1000},
		{"version 2, no limit", v2, "0::/a\n", map[string]string{"sys/fs/cgroup/a/memory.max": "max\n"}, math.MaxInt64},
		{"version 2, nested", v2, "0::/a/b/c\n", map[string]string{"sys/fs/cgroup/a/b/c/memory.max": "max\n",
			"sys/fs/cgroup/a/b/memory.max": "3000\n", "sys/fs/cgroup/a/memory.max": "2000\n"}, 2000},
		{"version 1", v1, "5:cpu,cpuacct:/x\n4:memory:/x/y\n", map[string]string{
			"sys/fs/cgroup/memory/x/y/memory.limit_in_bytes": "5000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n"}, 5000},
		{"version 1, a container that sees its own group only",
			strings.Replace(v1, "0:28 / ", "0:28 /docker/1 ", 1), "4:memory:/docker/1\n", map[string]string{
				"sys/fs/cgroup/memory/memory.limit_in_bytes": "700\n"}, 700},
		{"version 1, a path of the host", v1, "4:memory:/docker/1\n", map[string]string{
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "800\n"}, 800},
		{"both", v1 + strings.Replace(v2, "/sys/fs/cgroup", "/sys/fs/cgroup/unified", 1), "4:memory:/m\n0::/u\n", map[string]string{
			"sys/fs/cgroup/memory/m/memory.limit_in_bytes": "900\n", "sys/fs/cgroup/unified/u/memory.max": "600\n"}, 600},
		{"damaged", "x - y\n\n", "::::\n4\n", nil, math.MaxInt64},
	} {
		root := fstest.MapFS{"proc/self/mountinfo": {Data: []byte(c.mounts)}, "proc/self/cgroup": {Data: []byte(c.groups)}}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if n := groups(root); n != c.want {
			t.Errorf("%s: %d, expected %d", c.what, n, c.want)
		}
	}
}

// TestAddressSpace checks that a limit of the address space (ulimit -v) counts.
func TestAddressSpace(t *testing.T) {
	if os.Getenv("ESSMC_RAM_CHILD") != "" {
		os.Stdout.WriteString("total=" + strconv.FormatInt(Total(), 10) + "\n")
		os.Exit(0)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const limit int64 = 4 << 20 // KiB
	cmd := exec.Command("sh", "-c", "ulimit -v "+strconv.FormatInt(limit, 10)+` && exec "$0" -test.run TestAddressSpace`, self)
	cmd.Env = append(os.Environ(), "ESSMC_RAM_CHILD=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(strings.TrimSpace(string(out)), "total=")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > limit<<10 {
		t.Errorf("%q: expected at most %d bytes", out, limit<<10)
	}
	if all := Total(); all < limit<<10 {
		t.Skipf("this machine has only %d bytes", all)
	}
}
