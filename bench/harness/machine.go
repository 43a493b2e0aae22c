package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/essmc/essmc/runtime/cpu"
)

// machine describes the machine of a measurement.
type machine struct {
	CPU     string   `json:"cpu"`
	Threads int      `json:"threads"`
	Memory  string   `json:"memory,omitempty"`
	Load    string   `json:"load,omitempty"` // when the suite began
	OS      string   `json:"os"`
	Go      string   `json:"go"`
	Kernels string   `json:"kernels"`
	Commit  string   `json:"commit,omitempty"`
	Peers   []string `json:"peers,omitempty"`
	Time    string   `json:"time"`
}

func describe(ctx context.Context, e *env) machine {
	m := machine{
		CPU: cpuName(), Threads: runtime.NumCPU(), Memory: memory(), Load: load(),
		OS: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Kernels: cpu.Kernels(), Time: time.Now().UTC().Format("2006-01-02 15:04 UTC"),
	}
	git := func(args ...string) string {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", e.root}, args...)...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	m.Commit = git("rev-parse", "--short=12", "HEAD")
	if m.Commit != "" && git("status", "--porcelain", "--untracked-files=no", "--", ":!bench") != "" {
		m.Commit += " with changes"
	}
	return m
}

// field returns the rest of the first line that begins with key and a colon.
func field(text, key string) string {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func cpuName() string {
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if name := field(string(b), "model name"); name != "" {
			return name
		}
	}
	if out, err := exec.Command("sysctl", "-n", "machdep.cpu.brand_string").Output(); err == nil {
		return strings.TrimSpace(string(out))
	}
	return "unknown processor"
}

func memory() string {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return ""
	}
	var kib float64
	if _, err := fmt.Sscanf(field(string(b), "MemTotal"), "%g kB", &kib); err != nil {
		return ""
	}
	return fmt.Sprintf("%.0f GiB", kib/(1<<20))
}

// load returns the machine's average load of the last minute, or "" if the system does not report it.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	one, _, _ := strings.Cut(string(b), " ")
	return one
}

func (m machine) String() string {
	parts := []string{m.CPU, fmt.Sprintf("%d threads", m.Threads)}
	if m.Memory != "" {
		parts = append(parts, m.Memory)
	}
	parts = append(parts, m.OS, m.Go, "kernels "+m.Kernels)
	if m.Load != "" {
		parts = append(parts, "load at the start "+m.Load)
	}
	if m.Commit != "" {
		parts = append(parts, "commit "+m.Commit)
	}
	return m.Time + ": " + strings.Join(append(parts, m.Peers...), "; ")
}
