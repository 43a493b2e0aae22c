package main

import (
	"fmt"
	"io"
	goruntime "runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/internal/table"
	"github.com/essmc/essmc/internal/ram"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/cuda/driver"
)

func newDevicesCommand() *cobra.Command {
	return &cobra.Command{
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
		Args:              args(),
		RunE:              func(cmd *cobra.Command, _ []string) error { return printDevices(cmd.OutOrStdout()) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

func printDevices(w io.Writer) error {
	columns := []table.Column{{Title: "device"}, {Title: "name"}, {Title: "compute", Right: true},
		{Title: "memory", Right: true}, {Title: "free", Right: true}, {Title: "runs models", Width: 48}}
	processor := fmt.Sprintf("%s %s, %s", goruntime.GOOS, goruntime.GOARCH, plural(goruntime.GOMAXPROCS(0), "thread"))
	rows := [][]string{{deviceCPU, processor, "", byteCount(ram.Total()), "", "yes, kernels " + cpu.Kernels()}}
	drv, none := openDriver()
	version := 0
	if none == nil {
		var cards []foundCard
		if cards, none = found(drv); none == nil {
			version, none = drv.Version()
		}
		for _, c := range cards {
			row := []string{fmt.Sprintf("%s:%d", deviceCUDA, c.Device), c.Name, fmt.Sprintf("%d.%d", c.Major, c.Minor),
				byteCount(int64(c.Total)), byteCount(int64(c.free)), "yes"}
			if c.refused != nil {
				row[4], row[5] = "", "no: "+strings.TrimPrefix(oneLine(c.refused.Error()), c.String()+" ")
			}
			rows = append(rows, row)
		}
	}
	if err := table.Print(w, columns, rows); err != nil {
		return err
	}
	if none != nil {
		_, err := fmt.Fprintf(w, "cuda: %s\n", oneLine(none.Error()))
		return err
	}
	_, err := fmt.Fprintf(w, "cuda: the driver is for CUDA %s\n", driver.VersionText(version))
	return err
}
