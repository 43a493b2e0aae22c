package serve

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/essmc/essmc/internal/files"
)

// Options are the settings of a server, which serve.yaml holds under the same names. Defaults fills in what is zero.
type Options struct {
	// HTTP, GRPC and Admin are the addresses to listen on; empty: none. Admin serves metrics, profiles and reloads.
	HTTP  string `yaml:"http"`
	GRPC  string `yaml:"grpc"`
	Admin string `yaml:"admin"`
	// Models are models by their names: paths of files, of model directories, or of folders with a folder for each
	// version.
	Models map[string]string `yaml:"-"`
	// Dir is a folder whose entries are models, as in Models.
	Dir string `yaml:"models"`
	// Untrusted bounds what a model may take, as open.Untrusted does.
	Untrusted bool `yaml:"untrusted"`
	// Repository allows clients to load and unload models.
	Repository bool `yaml:"repository"`
	// Default has the settings of models that Model does not name. Those that it names have only their own.
	Default ModelOptions            `yaml:"default"`
	Model   map[string]ModelOptions `yaml:"model"`
	Limits  Limits                  `yaml:"limits"`
	Streams StreamOptions           `yaml:"streams"`

	// Version is the server's version in its metadata.
	Version string `yaml:"-"`
	// Log takes messages; nil: none. Access takes a JSON line for each request, without its contents; nil: none.
	Log    *slog.Logger `yaml:"-"`
	Access io.Writer    `yaml:"-"`
	// Started, if not nil, is called by Run when it listens on all addresses.
	Started func() `yaml:"-"`
}

// ModelOptions are the settings of one model.
type ModelOptions struct {
	Instances int `yaml:"instances"` // batches that run at once; 0: the processors over threads
	Threads   int `yaml:"threads"`   // of one batch; 0: 1
	Versions  int `yaml:"versions"`  // how many of the latest versions are served; 0: 1; -1: all
	// Shapes, State, Parameters and Outputs are Shapes, Carry and Parameters of open.Options, and Outputs of
	// runtime.Options.
	Shapes     []string          `yaml:"shapes"`
	State      map[string]string `yaml:"state"`
	Parameters []string          `yaml:"parameters"`
	Outputs    []string          `yaml:"outputs"`
	// Warmup has the sizes of dimensions, by symbol, that are run before a model is served.
	Warmup map[string]int64 `yaml:"warmup"`
	Batch  BatchOptions     `yaml:"batch"`
}

// BatchOptions are the settings of a model's queue; see queue.Options.
type BatchOptions struct {
	Symbol    string        `yaml:"symbol"` // the batch dimension, if the model does not declare it
	Max       int           `yaml:"max"`
	Preferred []int         `yaml:"preferred"`
	Delay     time.Duration `yaml:"delay"`
	Queue     int           `yaml:"queue"`
	Levels    int           `yaml:"priorities"`
	Default   int           `yaml:"default_priority"`
}

// Limits bound what clients may take.
type Limits struct {
	Body     Size          `yaml:"body"`     // of a request, also after it is decompressed; 64MiB
	Header   Size          `yaml:"header"`   // of a request over HTTP; 64KiB
	Head     time.Duration `yaml:"head"`     // to send a header; 10s
	Send     time.Duration `yaml:"send"`     // to send a body, or to take an answer; 30s
	Idle     time.Duration `yaml:"idle"`     // of a connection; 2m
	Request  time.Duration `yaml:"request"`  // of a request from its body to its answer; 30s
	Requests int           `yaml:"requests"` // at a time; 4096
	Drain    time.Duration `yaml:"drain"`    // for which a server that ends waits for named sequences; 10s
}

// StreamOptions are the settings of sequences.
type StreamOptions struct {
	Memory Size          `yaml:"memory"` // of the states of all live sequences; 1GiB
	Idle   time.Duration `yaml:"idle"`   // after which a named sequence is dropped; 10m
	Keys   string        `yaml:"keys"`   // the file of keys for states that clients carry; empty: a key for this process
	Expiry time.Duration `yaml:"expiry"` // of such a state; 24h
	// Variants is "any" if a state may come from other kernels, and go on to tolerance; "same" if not.
	Variants string `yaml:"variants"`
	// Replays is "allow" if a state may be used more than once, "refuse" if not, within this replica.
	Replays string `yaml:"replays"`
}

// Size is a number of bytes; in serve.yaml, "64MiB" or a number.
type Size int64

// UnmarshalYAML reads a size.
func (s *Size) UnmarshalYAML(b []byte) error {
	text := strings.Trim(strings.TrimSpace(string(b)), `"'`)
	unit := int64(1)
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}} {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = strings.TrimSpace(rest), u.bytes
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > 1<<50/unit {
		return fmt.Errorf("expected a size as 64MiB, found %.30q", b)
	}
	*s = Size(n * unit)
	return nil
}

// maxConfig bounds the size of serve.yaml.
const maxConfig = 1 << 20

// ReadOptions adds the settings of a serve.yaml to o. Unknown names are an error.
func ReadOptions(path string, o *Options) error {
	f, err := files.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(b) > maxConfig {
		return fmt.Errorf("%s: expected at most %d bytes", path, maxConfig)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	if err := yaml.UnmarshalWithOptions(b, o, yaml.Strict()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// or sets a setting that is zero.
func or[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// defaults fills in what is zero, and checks the rest.
func (o *Options) defaults() error {
	or(&o.Limits.Body, 64<<20)
	or(&o.Limits.Header, 64<<10)
	or(&o.Limits.Head, 10*time.Second)
	or(&o.Limits.Send, 30*time.Second)
	or(&o.Limits.Idle, 2*time.Minute)
	or(&o.Limits.Request, 30*time.Second)
	or(&o.Limits.Requests, 4096)
	or(&o.Limits.Drain, 10*time.Second)
	or(&o.Streams.Memory, 1<<30)
	or(&o.Streams.Idle, 10*time.Minute)
	or(&o.Streams.Expiry, 24*time.Hour)
	or(&o.Streams.Variants, "any")
	or(&o.Streams.Replays, "allow")
	or(&o.Version, "(unknown version)")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for name, v := range map[string]int64{"limits.head": int64(o.Limits.Head), "limits.send": int64(o.Limits.Send),
		"limits.idle": int64(o.Limits.Idle), "limits.request": int64(o.Limits.Request),
		"limits.drain":    int64(o.Limits.Drain),
		"limits.requests": int64(o.Limits.Requests), "streams.idle": int64(o.Streams.Idle),
		"streams.expiry": int64(o.Streams.Expiry)} {
		if v < 0 {
			return fmt.Errorf("%s: expected a positive value, found %d", name, v)
		}
	}
	if o.Limits.Body > 1<<30 {
		return fmt.Errorf("limits.body: expected at most 1GiB, found %d bytes", o.Limits.Body)
	}
	if v := o.Streams.Variants; v != "any" && v != "same" {
		return fmt.Errorf("streams.variants: expected any or same, found %q", v)
	}
	if v := o.Streams.Replays; v != "allow" && v != "refuse" {
		return fmt.Errorf("streams.replays: expected allow or refuse, found %q", v)
	}
	return nil
}

// of returns the settings of a model.
func (o *Options) of(name string) ModelOptions {
	if m, ok := o.Model[name]; ok {
		return m
	}
	return o.Default
}
