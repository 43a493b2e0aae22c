package command

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/serve"
)

// serveFlags are the flags of the command serve. Those that are given replace the settings of the file.
type serveFlags struct {
	config, models    string
	http, grpc, admin string
	untrusted         bool
	access            string
}

func newServeCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:     "serve [NAME=]MODEL … | --models DIR",
		Short:   "Answer requests for models over the network",
		GroupID: groupRun,
		Long: `Serve answers requests over the KServe Open Inference Protocol v2, as REST and as gRPC,
with Triton's extensions. Clients of Triton and KServe work as they are.

A model is served under the name of its file, or under NAME. With --models, every file,
model directory and folder of DIR is a model. A folder may have a folder for each
version, with a number as its name; the latest one is served. A model that cannot be
loaded is listed as unavailable, and the others are served.

Requests of equal shape are computed together if that changes no answer. Causal models
keep sequences: by sequence_id, for a bidirectional gRPC stream, or as a state that the
client carries to any replica.

Serve listens on this machine only, unless --http and --grpc say otherwise; "" turns one
off. --admin has metrics (/metrics), profiles and POST /reload, which loads files that
have changed, as SIGHUP does. On SIGTERM or an interrupt, serve answers the requests
that it has accepted, and hands the states of sequences to their clients.

--config reads a serve.yaml, with settings for models, limits and sequences. See
docs/serving.md.`,
		Example: `  essmc serve model.essm
  essmc serve speech=model vad.onnx --http 0.0.0.0:8080 --grpc 0.0.0.0:9000
  essmc serve --models repository --config serve.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(cmd, args)
			if err != nil {
				return err
			}
			return runServer(cmd, o, f.access)
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "", "read settings from a serve.yaml: `FILE`")
	cmd.Flags().StringVar(&f.models, "models", "", "serve the models in `DIR`")
	cmd.Flags().StringVar(&f.http, "http", "127.0.0.1:8080", "`ADDRESS` of the protocol as REST")
	cmd.Flags().StringVar(&f.grpc, "grpc", "127.0.0.1:9000", "`ADDRESS` of the protocol as gRPC")
	cmd.Flags().StringVar(&f.admin, "admin", "127.0.0.1:9090", "`ADDRESS` of metrics, profiles and reloads")
	cmd.Flags().BoolVar(&f.untrusted, "untrusted", false, "bound what a model may take, for files of people you do "+
		"not know")
	cmd.Flags().StringVar(&f.access, "access-log", "", "write a JSON line for each request to `FILE`, or - for "+
		"standard output")
	complete(cmd, "config", filesOf("yaml", "yml"))
	complete(cmd, "models", directories)
	return cmd
}

// options are the settings of the file, with those of the flags.
func (f *serveFlags) options(cmd *cobra.Command, args []string) (serve.Options, error) {
	o := serve.Options{HTTP: f.http, GRPC: f.grpc, Admin: f.admin, Models: map[string]string{}, Version: version(),
		Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))}
	if f.config != "" {
		if err := serve.ReadOptions(f.config, &o); err != nil {
			return o, err
		}
	}
	for name, v := range map[string]struct{ to, from *string }{"http": {&o.HTTP, &f.http}, "grpc": {&o.GRPC, &f.grpc},
		"admin": {&o.Admin, &f.admin}, "models": {&o.Dir, &f.models}} {
		if changed(cmd, name) {
			*v.to = *v.from
		}
	}
	if changed(cmd, "untrusted") {
		o.Untrusted = f.untrusted
	}
	for _, arg := range args {
		name, path, ok := strings.Cut(arg, "=")
		if !ok || strings.Contains(name, "/") {
			name, path = serve.NameOf(arg), arg
		}
		if other, twice := o.Models[name]; twice {
			return o, usagef("%s: %s and %s both have the name %q; give one as NAME=MODEL", cmd.CommandPath(), other,
				path, name)
		}
		if _, err := files.Stat(path); err != nil {
			return o, err
		}
		o.Models[name] = path
	}
	if len(o.Models) == 0 && o.Dir == "" {
		return o, usagef("%s: expected MODEL or --models DIR, found neither; see %s -h", cmd.CommandPath(),
			cmd.CommandPath())
	}
	return o, nil
}

// runServer serves until an interrupt or SIGTERM.
func runServer(cmd *cobra.Command, o serve.Options, access string) (err error) {
	switch access {
	case "":
	case "-":
		o.Access = cmd.OutOrStdout()
	default:
		w, err := files.Create(access, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.Close()) }()
		o.Access = w
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM)
	defer stop()
	var s *serve.Server
	o.Started = func() { err = printServer(cmd.OutOrStdout(), s, o) }
	if s, err = serve.New(ctx, o); err != nil {
		return err
	}
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	go func() {
		for {
			select {
			case <-reload:
				_ = s.Reload(ctx) // the log has the errors
			case <-ctx.Done():
				return
			}
		}
	}()
	return errors.Join(s.Run(ctx), err)
}

// printServer prints what is served, and where.
func printServer(w io.Writer, s *serve.Server, o serve.Options) error {
	rows := [][]string{}
	for _, m := range s.Models() {
		kind, batches, sequences := m.Kind, "joined", "yes"
		if m.Joined != "" {
			batches = "single: " + oneLine(m.Joined)
		}
		if m.Streams != "" {
			sequences = "no"
		}
		if m.Reason != "" {
			kind, batches, sequences = "unavailable", oneLine(m.Reason), ""
		}
		rows = append(rows, []string{m.Name, m.Version, kind, sequences, batches})
	}
	columns := []table.Column{{Title: "model"}, {Title: "version"}, {Title: "kind"}, {Title: "sequences"},
		{Title: "requests"}}
	if err := table.Print(w, columns, rows); err != nil {
		return err
	}
	for _, l := range []struct{ name, format string }{{"http", "http://%s/v2"}, {"grpc", "%s"},
		{"admin", "http://%s/metrics"}} {
		if a := s.Address(l.name); a != nil {
			if _, err := fmt.Fprintf(w, "%-6s %s\n", l.name, fmt.Sprintf(l.format, a)); err != nil {
				return err
			}
		}
	}
	note := ""
	if o.Streams.Keys == "" {
		note = ", which no other replica has (streams.keys in serve.yaml)"
	}
	_, err := fmt.Fprintf(w, "states are sealed by key %s%s\n", s.Keys()[0], note)
	return err
}
