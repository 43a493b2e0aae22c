// Command bench measures essmc and its peers side by side, and writes RESULTS.md and the figures beside it:
//
//	go run ./bench -h
//
// It may import the standard library only. It starts the module in the folder harness, whose own go.mod keeps the
// dependencies of the benchmarks out of the project; `go run` alone cannot run another module.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: "+err.Error())
	}
	os.Exit(code)
}

// run starts the harness with args and returns its exit code.
func run(args []string) (int, error) {
	root, err := moduleRoot()
	if err != nil {
		return 1, err
	}
	bin, err := os.MkdirTemp("", "essmc-bench-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(bin)
	program := filepath.Join(bin, "harness.exe")
	build := exec.Command("go", "-C", filepath.Join(root, "bench", "harness"), "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return 1, fmt.Errorf("building the harness: %w", err)
	}
	cmd := exec.Command(program, append([]string{"-root", root}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // the harness receives it too, and ends its peers
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}

// moduleRoot returns the folder of the go.mod for the working directory.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	root := filepath.Dir(mod)
	if _, err := os.Stat(filepath.Join(root, "bench", "harness", "go.mod")); err != nil {
		return "", fmt.Errorf("expected to run in the root of essmc's module, found %q", mod)
	}
	return root, nil
}
