// Package tune stores the results of `essmc tune`: the constants of the cpu backend's cost model. There is one file per
// machine and variant of the kernels, below the user's cache directory.
//
// It imports runtime/cpu and internal/atomicfile. The results of Read are valid for this machine. A file that is not
// gives an error with the reason, and no default.
package tune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/runtime/cpu"
)

// Variable is the environment variable that names another file, or is "off" for none.
const Variable = "ESSMC_TUNE"

// Off is the value of Variable that disables measurements.
const Off = "off"

// File is the content of a file.
type File struct {
	Version int       `json:"version"` // cpu.CostsVersion
	Machine string    `json:"machine"` // as returned by Machine
	Kernels string    `json:"kernels"` // as returned by cpu.Kernels
	Time    time.Time `json:"time"`    // time of the measurement
	Costs   cpu.Costs `json:"costs"`
}

// maxBytes bounds the size of a file.
const maxBytes = 64 << 10

// New returns the content for a measurement on this machine, with the current time.
func New(c cpu.Costs) *File {
	return &File{cpu.CostsVersion, Machine(), cpu.Kernels(), time.Now().UTC().Truncate(time.Second), c}
}

// Machine returns the name of this machine's type of processor.
func Machine() string {
	name := ""
	switch runtime.GOOS {
	case "linux":
		if f, err := files.Open("/proc/cpuinfo"); err == nil {
			defer f.Close()
			head, _ := io.ReadAll(io.LimitReader(f, 4096)) // the first processor; empty if it cannot be read
			name = field(string(head), "model name")
		}
	case "darwin":
		if out, err := exec.Command("sysctl", "-n", "machdep.cpu.brand_string").Output(); err == nil {
			name = strings.TrimSpace(string(out))
		}
	case "windows":
		name = os.Getenv("PROCESSOR_IDENTIFIER")
	}
	if name == "" {
		name = "unknown processor"
	}
	return name + ", " + runtime.GOARCH
}

// field returns the value of the first line "key : value".
func field(text, key string) string {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// Path returns the path of the file for this machine and variant of the kernels. It returns "" if Variable is "off".
func Path() (string, error) {
	switch p := os.Getenv(Variable); p {
	case "":
	case Off:
		return "", nil
	default:
		return p, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory for the results (%s can name a file): %w", Variable, err)
	}
	return filepath.Join(dir, "essmc", "tune-"+slug(Machine()+" "+cpu.Kernels())+".json"), nil
}

// slug returns the letters and digits of s in lower case, with hyphens in place of other characters.
func slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s),
		func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return strings.Join(words, "-")
}

// Read reads a file and checks that it is for this machine and the kernels of this process. If there is no file, the
// error is fs.ErrNotExist.
func Read(path string) (*File, error) {
	r, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, err
	}
	f, err := parse(b)
	if err == nil {
		err = f.fits()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func parse(b []byte) (*File, error) {
	if len(b) > maxBytes {
		return nil, fmt.Errorf("expected at most %d bytes", maxBytes)
	}
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return nil, damaged(err)
	}
	if version.Version != cpu.CostsVersion {
		return nil, fmt.Errorf("expected version %d of the results of essmc tune, found %d", cpu.CostsVersion,
			version.Version)
	}
	f := &File{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return nil, damaged(err)
	}
	if err := f.Costs.Check(); err != nil {
		return nil, fmt.Errorf("costs: %w", err)
	}
	return f, nil
}

// Begins reports whether a file that begins with head may be one of Write, possibly damaged.
func Begins(head []byte) bool {
	return bytes.HasPrefix(head, []byte("{")) &&
		bytes.Contains(head, []byte(`"machine"`)) && bytes.Contains(head, []byte(`"kernels"`))
}

// damaged returns the error for a file that Write has not written.
func damaged(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Errorf("expected a file of essmc tune, found JSON with %s at byte %d", kind.Value, kind.Offset)
	}
	return fmt.Errorf("expected a file of essmc tune: %w", err)
}

// fits returns an error for a measurement of another machine.
func (f *File) fits() error {
	if m := Machine(); f.Machine != m {
		return fmt.Errorf("it was measured on %q, but this machine is %q", f.Machine, m)
	}
	if k := cpu.Kernels(); f.Kernels != k {
		return fmt.Errorf("it was measured with kernels %q, but this machine has %q", f.Kernels, k)
	}
	return nil
}

// Write writes the file to path, and makes its folder if necessary.
func (f *File) Write(path string) error {
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := files.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}
