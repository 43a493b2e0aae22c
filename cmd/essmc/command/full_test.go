//go:build linux || darwin

package command

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

// limitVariable turns the test binary into the command, with files of at most one KiB, as on a full disk.
const limitVariable = "ESSMC_TEST_FILE_LIMIT"

func TestMain(m *testing.M) {
	if os.Getenv(limitVariable) != "" {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 10, Max: 1 << 10}); err != nil {
			panic(err)
		}
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestFullDisk checks that no partial file stays if a disk is full.
func TestFullDisk(t *testing.T) {
	fixtures(t)
	write(t, "long.npy", tensor.FromSlice(ramp(3000), 1, 1000, 3))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "image", "-o", "new"},
		{"convert", home("../../../frontend/checkpoint/testdata/image.ckpt"), "-o", "new"},
		{"compile", "waves", "-o", "new.essm"},
		{"compile", "waves", "-o", "tokens.essm"}, // the existing file stays
		{"run", "waves", "-i", "long.npy", "-o", "new.npy"},
		{"run", "waves", "-i", "long.npy", "-o", "waves.npy"},
		{"run", "waves", "-i", "long.npy", "--dump", "new"},
		{"explain", "waves", "--html", "new.html"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			before := contents(t)
			cmd := exec.Command(exe, args...)
			cmd.Env = append(os.Environ(), limitVariable+"=1")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("expected exit code 1: %v: %s", err, stderr.String())
			}
			if text := stderr.String(); !strings.HasPrefix(text, "essmc: ") || strings.Count(text, "\n") != 1 ||
				!strings.Contains(text, "file too large") {
				t.Errorf("found %q", text)
			}
			if last := args[len(args)-1]; !strings.Contains(stderr.String(), last) {
				t.Errorf("%s is not named in %s", last, stderr.String())
			}
			sameFiles(t, before)
		})
	}
}

// TestDevFull checks devices and standard outputs that cannot be written.
func TestDevFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	fixtures(t)
	if err := os.Symlink("/dev/full", "full.npy"); err != nil {
		t.Fatal(err)
	}
	refused(t, 1, []string{"compile", "waves", "-o", "/dev/full"}, "/dev/full", "no space left")
	refused(t, 1, []string{"run", "waves", "-i", "waves.npy", "-o", "output=full.npy"}, "no space left")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"init"}, {"ops"}, {"inspect", "waves"}, {"run", "waves", "-i", "waves.npy"},
		{"version"}, {"-h"}} {
		var stderr bytes.Buffer
		if code := Main(args, nil, full, &stderr); code != 1 || !strings.Contains(stderr.String(), "no space left") ||
			strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: exit code %d: %s", args, code, stderr.String())
		}
	}
}
