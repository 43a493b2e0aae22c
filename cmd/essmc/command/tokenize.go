package command

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/frontend/tokenizer"
)

func newTokenizeCommand() *cobra.Command {
	var texts []string
	var pair string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "tokenize FILE|DIR [--text TEXT|@FILE]…",
		Short:   "Turn texts into tokens with a tokenizer.json",
		GroupID: groupRun,
		Long: `Tokenize turns texts into the tokens of a language model. FILE is a tokenizer.json, as
the tokenizers library of Hugging Face writes it; DIR is a directory with one.

--text gives a text, and can be repeated. @FILE has one text per line. Without --text,
each line of standard input is a text. --pair gives the second text of a pair, such as
the passage for a question: one for each text, or one for all of them.

Each text is tokenized by itself, with special tokens, truncation and padding as the
file states. Offsets are bytes of the text, the end excluded. --json writes one object
per text:

  {"ids":[…],"tokens":[…],"offsets":[[a,b],…],"type_ids":[…],"attention_mask":[…]}`,
		Example: `  essmc tokenize tokenizer.json --text "State spaces are small."
  essmc tokenize bert-base-uncased --text "Who wrote it?" --pair "Ada wrote it."
  essmc tokenize tokenizer.json --text @lines.txt --json
  echo "a line" | essmc tokenize tokenizer.json`,
		Args: args("FILE|DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := openTokenizer(args[0])
			if err != nil {
				return err
			}
			list, err := readTexts(texts)
			if err == nil && len(texts) == 0 {
				list, err = textLines(cmd.InOrStdin(), "standard input")
			}
			if err != nil {
				return err
			}
			var second []string
			if changed(cmd, "pair") {
				if second, err = readTexts([]string{pair}); err != nil {
					return err
				}
				if len(second) != 1 && len(second) != len(list) {
					return usagef("%s: --pair: expected one text, or one for each of %d texts, found %d",
						cmd.CommandPath(), len(list), len(second))
				}
			}
			for i, text := range list {
				var e *tokenizer.Encoding
				if second == nil {
					e, err = k.EncodeText(cmd.Context(), text, tokenizer.Options{})
				} else {
					e, err = k.EncodePair(cmd.Context(), text, second[min(i, len(second)-1)], tokenizer.Options{})
				}
				if err != nil {
					return fmt.Errorf("%s: text %d: %w", args[0], i+1, err)
				}
				if asJSON {
					err = writeTokensJSON(cmd.OutOrStdout(), e)
				} else {
					err = writeTokens(cmd.OutOrStdout(), e, i > 0)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&texts, "text", nil, "tokenize `TEXT` or, a line each, the texts of @FILE; can be "+
		"repeated")
	cmd.Flags().StringVar(&pair, "pair", "", "tokenize pairs: the second text `TEXT`, or @FILE")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a JSON object per text")
	return cmd
}

// writeTokensJSON writes an encoding as a line of JSON.
func writeTokensJSON(w io.Writer, e *tokenizer.Encoding) error {
	offsets := make([][2]int, e.Len())
	for i, o := range e.Offsets {
		offsets[i] = [2]int{o.Start, o.End}
	}
	list := func(x []int64) []int64 { return append([]int64{}, x...) } // [] for none
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		IDs     []int64  `json:"ids"`
		Tokens  []string `json:"tokens"`
		Offsets [][2]int `json:"offsets"`
		TypeIDs []int64  `json:"type_ids"`
		Mask    []int64  `json:"attention_mask"`
	}{list(e.IDs), e.Tokens(), offsets, list(e.TypeIDs), list(e.AttentionMask)})
}

// writeTokens writes an encoding as a table.
func writeTokens(w io.Writer, e *tokenizer.Encoding, behindOther bool) error {
	if behindOther {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	tokens := e.Tokens()
	rows := make([][]string, e.Len())
	for i, o := range e.Offsets {
		rows[i] = []string{fmt.Sprint(e.IDs[i]), fmt.Sprintf("%q", tokens[i]), fmt.Sprintf("%d–%d", o.Start, o.End),
			fmt.Sprint(e.TypeIDs[i]), fmt.Sprint(e.AttentionMask[i])}
	}
	return table.Print(w, []table.Column{{Title: "id", Right: true}, {Title: "token"}, {Title: "bytes", Right: true},
		{Title: "type", Right: true}, {Title: "mask", Right: true}}, rows)
}
