package command

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/tokenizer"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/models/config"
	"github.com/essmc/essmc/runtime/generate"
)

// generateFlags are the flags of the command generate.
type generateFlags struct {
	runFlags
	prompt, ids string
	tokenizer   string
	count, topK whole
	o           generate.Options
	stop        tokenSet
}

func newGenerateCommand() *cobra.Command {
	f := generateFlags{count: whole{generate.DefaultTokens, 1}, topK: whole{0, 0}}
	cmd := &cobra.Command{
		Use:     "generate MODEL --prompt TEXT|--prompt-ids N,N,…",
		Short:   "Continue a text with a language model",
		GroupID: groupRun,
		Long: `Generate continues a text, token by token, and writes each token as soon as it is known.
The model takes tokens and gives logits at every step, such as Mamba. It runs as a
stream: a token takes the same time and memory at any length of the text.

--prompt needs the tokenizer.json of the model, which is expected in the model's
directory, or beside its file; --tokenizer names another one. --prompt-ids gives tokens
as numbers, and new tokens are written as numbers, too.

Without --temperature, each token is the most probable one. With it, tokens are drawn:
logits are divided by it; --top-k leaves the given number of most probable tokens, and
--top-p then those that together have the given probability. Equal seeds give equal
texts.

The text ends at the end token that generation_config.json or config.json in the model's
directory states (eos_token_id), at one given by --stop, or after --max-new-tokens.`,
		Example: `  essmc generate mamba-130m-hf --prompt Hello
  essmc generate mamba-130m-hf --prompt Once --temperature 0.8 --top-p 0.95 --seed 1
  essmc generate mamba-130m-hf --prompt Hello --device cuda
  essmc generate model.essm --prompt-ids 12092,13,309 --max-new-tokens 20`,
		Args: args("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if changed(cmd, "prompt") == changed(cmd, "prompt-ids") {
				return usagef("%s: expected one of --prompt and --prompt-ids", cmd.CommandPath())
			}
			if changed(cmd, "tokenizer") && !changed(cmd, "prompt") {
				return usagef("%s: --tokenizer needs --prompt", cmd.CommandPath())
			}
			if f.count.value > generate.MaxTokens {
				return usagef("%s: --max-new-tokens: expected 1 to %d, found %d", cmd.CommandPath(), generate.MaxTokens,
					f.count.value)
			}
			f.o.MaxNewTokens, f.o.TopK, f.o.Stop = f.count.value, f.topK.value, append(endTokens(args[0]), f.stop...)
			return f.run(cmd, args[0])
		},
	}
	modelCompletion(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.prompt, "prompt", "", "continue `TEXT`")
	flags.StringVar(&f.ids, "prompt-ids", "", "continue the tokens `N,N,...`")
	flags.StringVar(&f.tokenizer, "tokenizer", "", "read `FILE`, a tokenizer.json (default: that in the model's "+
		"directory)")
	complete(cmd, "tokenizer", filesOf("json"))
	flags.Var(&f.count, "max-new-tokens", "number of new tokens at most")
	flags.Float64Var(&f.o.Temperature, "temperature", 0, "draw tokens, with logits divided by `T`")
	flags.Var(&f.topK, "top-k", "draw from the most probable tokens only; 0: from all")
	flags.Float64Var(&f.o.TopP, "top-p", 0, "draw from the most probable tokens that together have probability `P`; "+
		"0: from all")
	flags.Uint64Var(&f.o.Seed, "seed", 0, "seed of the random numbers")
	flags.Var(&f.stop, "stop", "end at token N; can be repeated")
	f.register(cmd)
	f.registerLow(cmd)
	return cmd
}

// run opens the model before the tokenizer: a model that is not a language model has none to look for.
func (f *generateFlags) run(cmd *cobra.Command, path string) error {
	var tokens []int64
	var err error
	if changed(cmd, "prompt-ids") {
		if tokens, err = tokenList(f.ids); err != nil {
			return usagef("%s: --prompt-ids: %v", cmd.CommandPath(), err)
		}
	}
	model, err := f.compiled(cmd, path, nil)
	if err != nil {
		return err
	}
	defer model.Close()
	g, err := generate.New(model)
	var lacks *generate.OptionError
	if errors.As(err, &lacks) {
		return fmt.Errorf("%s: %s; essmc run computes the outputs of any model", path, lacks.Msg)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer g.Close()
	var k *tokenizer.Tokenizer
	source := f.tokenizer
	if changed(cmd, "prompt") {
		if k, source, err = modelTokenizer(f.tokenizer, path, ", or give tokens with --prompt-ids"); err != nil {
			return err
		}
		e, err := k.EncodeText(cmd.Context(), f.prompt, tokenizer.Options{})
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		if tokens = e.IDs; len(tokens) == 0 {
			return usagef("%s: --prompt: expected a text, found none", cmd.CommandPath())
		}
	}
	if k != nil && k.Tokens() > int64(g.Vocabulary()) {
		return fmt.Errorf("%s: does not fit the model: it has tokens up to %d, and the model %d logits", source,
			k.Tokens()-1, g.Vocabulary())
	}
	out := newTokenWriter(cmd.OutOrStdout(), k, tokens)
	if k != nil {
		if err := out.text(f.prompt); err != nil {
			return err
		}
	}
	for token, err := range g.Tokens(cmd.Context(), tokens, f.o) {
		if err == nil {
			err = out.put(token)
		}
		if err != nil {
			var o *generate.OptionError
			if errors.As(err, &o) && o.Name != "model" {
				return usagef("%s: --%s: %s", cmd.CommandPath(), f.flag(o.Name), o.Msg)
			}
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return out.end()
}

// endTokens returns the tokens that end a text of the model in a directory; none for other models.
func endTokens(model string) []int64 {
	for _, name := range []string{"generation_config.json", checkpoint.ConfigName} {
		f, err := files.Open(filepath.Join(model, name))
		if err != nil {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(f, config.MaxSize+1))
		f.Close()
		v, wrong := config.Parse(b)
		if err != nil || wrong != nil {
			continue // the error comes when the model is read
		}
		end := v.Get("eos_token_id")
		if end == nil {
			continue
		}
		items := []*config.Value{end}
		if end.Kind == config.List {
			items = end.Items
		}
		var all []int64
		for _, item := range items {
			if k, err := strconv.ParseInt(item.Text, 10, 64); err == nil && item.Kind == config.Number {
				all = append(all, k)
			}
		}
		return all
	}
	return nil
}

// flag returns the flag of an option of the generator.
func (f *generateFlags) flag(option string) string {
	if option == "prompt" && f.prompt == "" {
		return "prompt-ids"
	}
	return strings.ReplaceAll(option, " ", "-")
}

// tokenSet is a flag for tokens, which may be repeated.
type tokenSet []int64

func (s *tokenSet) String() string { return "" }
func (s *tokenSet) Type() string   { return "N" }
func (s *tokenSet) Set(text string) error {
	all, err := tokenList(text)
	*s = append(*s, all...)
	return err
}

// tokenList reads numbers separated by commas.
func tokenList(s string) ([]int64, error) {
	var all []int64
	for _, part := range strings.Split(s, ",") {
		k, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil || k < 0 {
			return nil, fmt.Errorf("expected tokens separated by commas, as in 12,7,3, found %q", part)
		}
		all = append(all, k)
	}
	return all, nil
}

// tokenWriter writes tokens as text, whole characters at a time, or as numbers.
type tokenWriter struct {
	w    io.Writer
	k    *tokenizer.Tokenizer
	d    *tokenizer.Decoder
	some bool
}

// newTokenWriter writes tokens that continue a prompt. Their text may depend on it, but the prompt is not written.
func newTokenWriter(w io.Writer, k *tokenizer.Tokenizer, prompt []int64) *tokenWriter {
	t := &tokenWriter{w: w, k: k}
	if k != nil {
		t.d = k.NewDecoder(false)
		t.d.Skip(prompt)
	}
	return t
}

func (t *tokenWriter) text(s string) error {
	_, err := io.WriteString(t.w, s)
	return err
}

func (t *tokenWriter) put(token int64) error {
	if t.k == nil {
		sep := ""
		if t.some {
			sep = " "
		}
		t.some = true
		return t.text(sep + strconv.FormatInt(token, 10))
	}
	if _, ok := t.k.Token(token); !ok {
		return t.text(string(utf8.RuneError)) // the model has more logits than the tokenizer tokens
	}
	return t.text(t.d.Next(token))
}

func (t *tokenWriter) end() error {
	rest := ""
	if t.d != nil {
		rest = t.d.Flush()
	}
	return t.text(rest + "\n")
}
