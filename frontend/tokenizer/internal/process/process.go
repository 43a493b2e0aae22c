// Package process has the post-processors of a tokenizer.json: they put special tokens around the tokens of one or two
// texts, give type ids, and trim offsets. It also has truncation, which comes before, and what both work on.
//
// It imports frontend/tokenizer/internal/bytelevel, frontend/tokenizer/internal/part and the standard library.
package process

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// Token is a token of an encoding.
type Token struct {
	ID         uint32
	Start, End int32  // bytes of the text; 0 and 0 for tokens that were added
	Word       int32  // the piece of the text; -1 for tokens that were added
	Type       uint32 // the type id
	// >0: the place of its text in a list of the caller, plus 1; <0: AddedText has its text; 0: the vocabulary's
	Text    int32
	Seq     int8 // 0 or 1: the text; -1 for tokens that were added
	Special bool
}

// Encoding is the tokens of a text, and the windows that truncation has cut off.
type Encoding struct {
	Tokens   []Token
	Overflow [][]Token
}

// Texts are what trimming looks at.
type Texts struct {
	Original [2]string
	Token    func(t Token) string
}

// Limits of the windows of an encoding: their number, and that of their tokens in all.
const (
	MaxWindows      = 1 << 20
	MaxWindowTokens = 1 << 24
)

// fits checks the limits for windows of so many tokens each.
func fits(windows, tokens int) error {
	if windows > MaxWindows || windows*tokens > MaxWindowTokens {
		return fmt.Errorf("overflow: expected at most %d windows and %d tokens in them, found %d and %d", MaxWindows,
			MaxWindowTokens, windows, windows*tokens)
	}
	return nil
}

// step is a post-processor. It is given an encoding for each text, or what the one before it has made of them.
type step interface {
	added(pair bool) int
	process(list []Encoding, special bool, x *Texts) ([]Encoding, error)
}

// Processor is the post-processors of a file.
type Processor struct {
	steps []step
	texts texts
}

// texts are the texts of the tokens that are added, as the file states them.
type texts struct{ list []string }

// added makes a token that is added; its type is set later.
func (x *texts) added(id uint32, text string) Token {
	t := Token{ID: id, Word: -1, Seq: -1, Special: true}
	if text != "" {
		x.list = append(x.list, text)
		t.Text = -int32(len(x.list))
	}
	return t
}

// AddedText returns the text of a token whose Text is negative.
func (p *Processor) AddedText(t Token) string { return p.texts.list[-t.Text-1] }

// Parse reads a post-processor; null is one that changes nothing. Errors begin with `where`.
func Parse(raw json.RawMessage, where string) (*Processor, error) {
	p := &Processor{}
	return p, part.Each(raw, where, "processors", func(o *part.Object) bool {
		var s step
		switch o.Type {
		case "TemplateProcessing":
			s = parseTemplate(o, &p.texts)
		case "BertProcessing", "RobertaProcessing":
			s = parseAround(o, &p.texts)
		case "ByteLevel":
			s = parseTrim(o)
		default:
			return false
		}
		p.steps = append(p.steps, s)
		return true
	})
}

// Added returns the number of tokens that are added to one text, or to a pair.
func (p *Processor) Added(pair bool) int {
	n := 0
	for _, s := range p.steps {
		n += s.added(pair)
	}
	return n
}

// Process puts the encodings of one or two texts together, with special tokens if wanted. It may change the encodings
// that it is given.
func (p *Processor) Process(list []Encoding, special bool, x *Texts) (Encoding, error) {
	var err error
	for _, s := range p.steps {
		if list, err = s.process(list, special, x); err != nil {
			return Encoding{}, err
		}
	}
	return merge(list)
}

// merge joins encodings. Each window of one goes with each window of the others.
func merge(list []Encoding) (Encoding, error) {
	if len(list) == 1 {
		return list[0], nil
	}
	n := 0
	for _, e := range list {
		n += len(e.Tokens)
	}
	all := Encoding{Tokens: make([]Token, 0, n)}
	for _, e := range list {
		if err := fits((len(all.Overflow)+1)*(len(e.Overflow)+1)-1, len(all.Tokens)+len(e.Tokens)); err != nil {
			return all, err
		}
		var over [][]Token
		for _, first := range all.Overflow {
			over = append(over, slices.Concat(first, e.Tokens))
			for _, second := range e.Overflow {
				over = append(over, slices.Concat(first, second))
			}
		}
		for _, second := range e.Overflow {
			over = append(over, slices.Concat(all.Tokens, second))
		}
		all.Overflow = over
		all.Tokens = append(all.Tokens, e.Tokens...)
	}
	return all, nil
}

// setType gives all tokens a type id.
func setType(tokens []Token, typ uint32) {
	for i := range tokens {
		tokens[i].Type = typ
	}
}
