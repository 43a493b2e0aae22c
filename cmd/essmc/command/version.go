package command

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/cpu"

	cpukernels "github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the versions of essmc and Go, and the processor's features",
		Example: "  essmc version",
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.Printf("essmc     %s\n", version())
			cmd.Printf("plans     format %d.%d and older\n", plan.Major, plan.Minor)
			cmd.Printf("go        %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
			if t := buildTags(); t != "" {
				cmd.Printf("tags      %s\n", t)
			}
			cmd.Printf("processor %d threads", runtime.GOMAXPROCS(0))
			if f := features(); len(f) > 0 {
				cmd.Printf(", %s", strings.Join(f, " "))
			}
			cmd.Printf("\n")
			cmd.Printf("kernels   %s\n", cpukernels.Kernels())
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

// release and commit are set by .ci/release, which builds without the data of a checkout.
var release, commit string

// version returns the version of the release or of the module, with the commit where it is known. In a program of
// another module it is the version of essmc that the program links.
func version() string {
	if release != "" {
		return strings.TrimSpace(release + " " + commit[:min(12, len(commit))])
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown version)"
	}
	const module = "github.com/essmc/essmc"
	if i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == module }); i >= 0 {
		return cmp.Or(info.Deps[i].Version, "(unknown version)")
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(v, s.Value[:min(12, len(s.Value))]) {
			v += " " + s.Value[:min(12, len(s.Value))]
		}
	}
	return v
}

// buildTags returns the build tags of the binary, separated by commas.
func buildTags() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" {
				return s.Value
			}
		}
	}
	return ""
}

// features lists the processor's vector extensions that kernels use.
func features() []string {
	var out []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"avx2", cpu.X86.HasAVX2}, {"fma", cpu.X86.HasFMA}, {"avxvnni", cpu.X86.HasAVXVNNI},
		{"avx512f", cpu.X86.HasAVX512F}, {"avx512dq", cpu.X86.HasAVX512DQ},
		{"avx512vl", cpu.X86.HasAVX512VL}, {"avx512vnni", cpu.X86.HasAVX512VNNI}, {"avx512bf16", cpu.X86.HasAVX512BF16},
		{"asimd", cpu.ARM64.HasASIMD}, {"asimdhp", cpu.ARM64.HasASIMDHP}, {"asimddp", cpu.ARM64.HasASIMDDP},
		{"sve", cpu.ARM64.HasSVE},
	} {
		if f.has {
			out = append(out, f.name)
		}
	}
	return out
}
