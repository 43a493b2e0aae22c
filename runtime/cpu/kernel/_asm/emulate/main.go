// Command emulate is the only process of the virtual machine that emulate.sh starts. It runs /test with the
// arguments in /args and the environment in /env, one per line, and then switches the machine off.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

func main() {
	fmt.Println("emulate: begin")
	if err := run(); err != nil {
		fmt.Println("emulate: failed:", err)
	} else {
		fmt.Println("emulate: passed")
	}
	time.Sleep(2 * time.Second) // until the serial line has sent everything
	if err := syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("emulate: switching off:", err)
	}
	select {} // the first process must not end
}

func run() error {
	for dir, kind := range map[string]string{"/proc": "proc", "/dev": "devtmpfs"} {
		if err := syscall.Mount(kind, dir, kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	args, err := lines("/args")
	if err != nil {
		return err
	}
	env, err := lines("/env")
	if err != nil {
		return err
	}
	test := exec.Command("/test", args...)
	test.Env = append(env, "HOME=/tmp", "TMPDIR=/tmp")
	test.Stdout, test.Stderr = os.Stdout, os.Stderr
	return test.Run()
}

func lines(name string) ([]string, error) {
	b, err := os.ReadFile(name)
	text := strings.TrimSuffix(string(b), "\n")
	if text == "" {
		return nil, err
	}
	return strings.Split(text, "\n"), err
}
