// Command gomlx is a peer of the benchmarks: dense products by GoMLX's Go backend. It has its own go.mod, so that no
// other module of the project depends on GoMLX, its only import.
//
//	gomlx THREADS
//
// It answers requests on standard input like the peers in C, but only "load product 1:ROWS:N:K"; see ../native.c.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gomlx/gomlx/backends"
	"github.com/gomlx/gomlx/backends/simplego"
	"github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/tensors"
)

func main() {
	if err := run(); err != nil {
		fmt.Printf("error\t%v\n", err)
		os.Exit(1)
	}
}

func run() error {
	threads := "1"
	if len(os.Args) > 1 {
		threads = os.Args[1]
	}
	out := os.Stdout
	os.Stdout = os.Stderr // the backend prints what it is configured to
	backend, err := simplego.New("parallelism=" + threads)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "ready\tGoMLX %s, Go backend\n", moduleVersion())
	var jobs []func() error
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		answer, err := handle(backend, &jobs, strings.Split(in.Text(), "\t"))
		if err != nil {
			answer = "error\t" + strings.Join(strings.Fields(err.Error()), " ")
		}
		fmt.Fprintln(out, answer)
	}
	return in.Err()
}

func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/gomlx/gomlx" {
				return m.Version
			}
		}
	}
	return "(unknown version)"
}

func handle(backend backends.Backend, jobs *[]func() error, words []string) (string, error) {
	switch {
	case words[0] == "load" && len(words) == 3 && words[1] == "product":
		var rows, n, k int
		if _, err := fmt.Sscanf(words[2], "1:%d:%d:%d", &rows, &n, &k); err != nil {
			return "", fmt.Errorf("expected 1:ROWS:N:K, found %q", words[2])
		}
		*jobs = append(*jobs, product(backend, rows, n, k))
		return fmt.Sprintf("ok\t%d", len(*jobs)-1), (*jobs)[len(*jobs)-1]()
	case words[0] == "run" && len(words) == 3:
		job, err := find(*jobs, words[1])
		if err != nil {
			return "", err
		}
		reps, err := strconv.Atoi(words[2])
		if err != nil {
			return "", err
		}
		start := time.Now()
		for range reps {
			if err := job(); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("ok\t%d\t0", time.Since(start)), nil // processor time is not known
	case words[0] == "drop" && len(words) == 2:
		if _, err := find(*jobs, words[1]); err != nil {
			return "", err
		}
		id, _ := strconv.Atoi(words[1])
		(*jobs)[id] = nil
		return "ok", nil
	}
	return "", fmt.Errorf("unknown request %q", words)
}

func find(jobs []func() error, id string) (func() error, error) {
	i, err := strconv.Atoi(id)
	if err != nil || i < 0 || i >= len(jobs) || jobs[i] == nil {
		return nil, fmt.Errorf("no such job: %s", id)
	}
	return jobs[i], nil
}

func product(backend backends.Backend, rows, n, k int) func() error {
	exec := graph.MustNewExec(backend, func(x, w *graph.Node) *graph.Node { return graph.Dot(x, w) })
	x, w := fill(rows, k), fill(k, n)
	return func() error {
		y, err := exec.Exec(x, w)
		if err != nil {
			return err
		}
		for _, t := range y {
			if err := t.FinalizeAll(); err != nil {
				return err
			}
		}
		return nil
	}
}

func fill(rows, columns int) *tensors.Tensor {
	v := make([]float32, rows*columns)
	for i := range v {
		v[i] = float32(i%17) - 8
	}
	return tensors.FromFlatDataAndDimensions(v, rows, columns)
}
