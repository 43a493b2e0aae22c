package command

import (
	"fmt"
	"io"
	goruntime "runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/internal/ram"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/cuda/driver"
)

// devicesReport is what devices --json writes.
type devicesReport struct {
	Devices []deviceReport `json:"devices"`
	// Driver is the version of CUDA that NVIDIA's driver is for; None says why there is none.
	Driver string `json:"cuda_driver,omitempty"`
	None   string `json:"cuda_error,omitempty"`
}

type deviceReport struct {
	Device  string `json:"device"` // for --device
	Name    string `json:"name"`
	Threads int    `json:"threads,omitempty"`
	Kernels string `json:"kernels,omitempty"` // of the processor
	Compute string `json:"compute,omitempty"` // of a card
	Memory  int64  `json:"memory_bytes"`
	Free    int64  `json:"free_bytes,omitempty"`
	Runs    bool   `json:"runs_models"`
	Why     string `json:"why,omitempty"` // it runs none
}

func newDevicesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "devices",
		Short:   "List the devices that can run models, and why others cannot",
		GroupID: groupRun,
		Long: `Devices lists the processor and the NVIDIA cards of this machine: the names that --device
takes, the compute capability and the memory of cards, and whether they run models. A
card runs models if its compute capability is 8.0 or newer, its driver is for CUDA 11.4
or newer, and essmc is built with the tag cuda (go install -tags cuda). For a moment,
each such card holds a context of this process.`,
		Example: `  essmc devices
  essmc run model.essm --input x.npy --device cuda:1`,
		Args: args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := listDevices()
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	jsonVar(cmd, &asJSON, "write one JSON object")
	return cmd
}

// listDevices finds the devices of this machine.
func listDevices() *devicesReport {
	r := &devicesReport{Devices: []deviceReport{{Device: deviceCPU, Name: goruntime.GOOS + " " + goruntime.GOARCH,
		Threads: goruntime.GOMAXPROCS(0), Kernels: cpu.Kernels(), Memory: ram.Total(), Runs: true}}}
	drv, none := openDriver()
	version := 0
	if none == nil {
		var cards []foundCard
		if cards, none = found(drv); none == nil {
			version, none = drv.Version()
		}
		for _, c := range cards {
			d := deviceReport{Device: fmt.Sprintf("%s:%d", deviceCUDA, c.Device), Name: c.Name,
				Compute: fmt.Sprintf("%d.%d", c.Major, c.Minor), Memory: int64(c.Total), Free: int64(c.free),
				Runs: true}
			if c.refused != nil {
				d.Runs, d.Free, d.Why = false, 0, strings.TrimPrefix(oneLine(c.refused.Error()), c.String()+" ")
			}
			r.Devices = append(r.Devices, d)
		}
	}
	if none != nil {
		r.None = oneLine(none.Error())
	} else {
		r.Driver = driver.VersionText(version)
	}
	return r
}

// print writes the devices as a table.
func (r *devicesReport) print(w io.Writer) error {
	columns := []table.Column{{Title: "device"}, {Title: "name"}, {Title: "compute", Right: true},
		{Title: "memory", Right: true}, {Title: "free", Right: true}, {Title: "runs models", Width: 48}}
	var rows [][]string
	for _, d := range r.Devices {
		row := []string{d.Device, d.Name, d.Compute, byteCount(d.Memory), "", "yes"}
		switch {
		case d.Kernels != "":
			row[1], row[5] = fmt.Sprintf("%s, %s", d.Name, plural(d.Threads, "thread")), "yes, kernels "+d.Kernels
		case d.Runs:
			row[4] = byteCount(d.Free)
		default:
			row[5] = "no: " + d.Why
		}
		rows = append(rows, row)
	}
	if err := table.Print(w, columns, rows); err != nil {
		return err
	}
	line := "cuda: the driver is for CUDA " + r.Driver
	if r.None != "" {
		line = "cuda: " + r.None
	}
	_, err := fmt.Fprintln(w, line)
	return err
}
