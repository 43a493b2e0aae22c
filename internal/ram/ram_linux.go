package ram

import (
	"bufio"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func total() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	n := int64(info.Totalram) * int64(info.Unit)
	n = min(n, groups(os.DirFS("/")))
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) == nil && limit.Cur < math.MaxInt64 {
		n = min(n, max(1<<20, int64(limit.Cur)-mapped()))
	}
	return n
}

// mapped returns the size of the process's address space, most of which Go reserves and does not use.
func mapped() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _, _ := strings.Cut(string(b), " ")
	n, err := strconv.ParseInt(pages, 10, 64)
	if err != nil {
		return 0
	}
	return n * int64(os.Getpagesize())
}

// groups returns the lowest limit of memory of the process's control group and the groups above it, of version 1 and 2;
// MaxInt64 if there is none. root is the root of the file system.
func groups(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	mounts := groupMounts(root)
	each(root, "proc/self/cgroup", func(line string) {
		// hierarchy:controllers:path, as in 4:memory:/a/b for version 1, and 0::/a/b for version 2
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 || f[1] != "" && !slices.Contains(strings.Split(f[1], ","), "memory") {
			return
		}
		for _, m := range mounts {
			if m.second != (f[1] == "") {
				continue
			}
			// A container may see its own group as the mount's root, whatever the path is.
			below, ok := strings.CutPrefix(f[2], strings.TrimSuffix(m.root, "/"))
			if !ok {
				below = "/"
			}
			for dir := path.Join("/", below); ; dir = path.Dir(dir) {
				least = min(least, groupLimit(root, path.Join(m.at, dir), m.second))
				if dir == "/" {
					break
				}
			}
		}
	})
	return least
}

// groupMount is a place where control groups that limit memory are mounted.
type groupMount struct {
	at     string // relative to the root
	root   string // the group that is mounted there
	second bool   // version 2
}

func groupMounts(root fs.FS) (all []groupMount) {
	each(root, "proc/self/mountinfo", func(line string) {
		// id parent device root place options … - type source options
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 3 {
			return
		}
		m := groupMount{at: strings.TrimPrefix(f[4], "/"), root: f[3], second: g[0] == "cgroup2"}
		if m.second || g[0] == "cgroup" && slices.Contains(strings.Split(g[2], ","), "memory") {
			all = append(all, m)
		}
	})
	return all
}

func groupLimit(root fs.FS, dir string, second bool) int64 {
	name := "memory.limit_in_bytes"
	if second {
		name = "memory.max"
	}
	b, err := fs.ReadFile(root, path.Join(dir, name))
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64) // "max" for none
	if err != nil || n <= 0 {
		return math.MaxInt64
	}
	return n
}

// each calls f for each line of a file; not at all, if it cannot be read.
func each(root fs.FS, name string, f func(line string)) {
	r, err := root.Open(name)
	if err != nil {
		return
	}
	defer r.Close()
	for s := bufio.NewScanner(r); s.Scan(); {
		f(s.Text())
	}
}
