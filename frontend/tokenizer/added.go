package tokenizer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/added"
	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/chars"
	"github.com/essmc/essmc/frontend/tokenizer/internal/jsontext"
	"github.com/essmc/essmc/frontend/tokenizer/internal/model"
	"github.com/essmc/essmc/frontend/tokenizer/internal/normalize"
)

// addedToken is a token that is found in the text itself, before the model sees it.
type addedToken struct {
	content string // as the file states it
	pattern string // as it is found: normalized if the file says so
	id      uint32

	singleWord, lstrip, rstrip, normalized, special bool
	skip                                            bool // decoding without special tokens leaves it out
}

// readAdded reads the tokens of a file. As in the Rust library a token that the vocabulary has is that one, and others
// come behind the vocabulary, whatever id the file states; of equal contents the last one counts.
func (t *Tokenizer) readAdded(v jsontext.Value) error {
	if v.Kind() == jsontext.Null {
		return nil
	}
	t.added = make([]addedToken, 0, min(v.Len(), len(v)/8))
	err := v.Items(func(i int, v jsontext.Value) error {
		k, err := readToken(v)
		if err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
		if k.content != "" {
			t.added = append(t.added, k)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.number()
}

func readToken(v jsontext.Value) (addedToken, error) {
	var k addedToken
	stated, content := false, false
	err := v.Fields(func(key []byte, v jsontext.Value) error {
		var err error
		switch string(key) {
		case "id":
			_, err = v.Int(model.MaxTokens - 1)
		case "content":
			content = true
			k.content, err = v.Str()
		case "single_word":
			k.singleWord, err = v.Bool()
		case "lstrip":
			k.lstrip, err = v.Bool()
		case "rstrip":
			k.rstrip, err = v.Bool()
		case "normalized":
			stated = true
			k.normalized, err = v.Bool()
		case "special":
			k.special, err = v.Bool()
		default:
			return fmt.Errorf("key %.60q is not supported", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err == nil && !content {
		err = fmt.Errorf("content: expected a text, found none")
	}
	if !stated {
		k.normalized = !k.special
	}
	return k, err
}

// number gives added tokens their ids, and leaves one of each content, in the order of ids.
func (t *Tokenizer) number() error {
	order := make([]int32, len(t.added))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(strings.Compare(t.added[a].content, t.added[b].content), cmp.Compare(a, b))
	})
	// The first of equal contents has the place, the last one the flags.
	drop := make([]bool, len(order))
	for i := 1; i < len(order); i++ {
		if a, b := order[i-1], order[i]; t.added[a].content == t.added[b].content {
			t.added[a], t.added[b] = t.added[b], t.added[a]
			order[i], drop[b] = a, true
		}
	}
	count, _ := t.model.Size()
	next := uint32(count)
	kept := t.added[:0]
	for i, k := range t.added {
		if drop[i] {
			continue
		}
		id, ok := t.model.Lookup(k.content)
		if !ok {
			id = next
			next++
		}
		k.id = id
		kept = append(kept, k)
	}
	if next > model.MaxTokens {
		return fmt.Errorf("expected tokens from 0 to %d, found more", model.MaxTokens-1)
	}
	clear(t.added[len(kept):])
	t.added = kept
	slices.SortStableFunc(t.added, func(a, b addedToken) int { return cmp.Compare(a.id, b.id) })
	// Of equal ids, which vocabularies with gaps lead to, the last one counts.
	kept = t.added[:0]
	for i, k := range t.added {
		if i+1 == len(t.added) || t.added[i+1].id != k.id {
			kept = append(kept, k)
		}
	}
	clear(t.added[len(kept):])
	t.added = kept
	t.byContent = order[:0]
	for i := range t.added {
		t.byContent = append(t.byContent, int32(i))
	}
	slices.SortFunc(t.byContent, func(a, b int32) int {
		return strings.Compare(t.added[a].content, t.added[b].content)
	})
	return nil
}

// matcher finds some of the added tokens.
type matcher struct {
	t      *Tokenizer
	finder *added.Finder // nil: there are none
	tokens []int32       // the place of each text of the finder in t.added
}

// findAdded makes the matchers. `size` is the length of the file, which limits their memory.
func (t *Tokenizer) findAdded(size int) error {
	var texts [2][]string
	t.raw, t.normalized = matcher{t: t}, matcher{t: t}
	w := t.normalizer.Worker()
	for i := range t.added {
		k := &t.added[i]
		k.pattern = k.content
		m, list := &t.raw, &texts[0]
		if k.normalized {
			m, list = &t.normalized, &texts[1]
			if err := k.normalize(t.normalizer, w); err != nil {
				return fmt.Errorf("%.60q: %w", k.content, err)
			}
		}
		if k.pattern != "" {
			m.tokens, *list = append(m.tokens, int32(i)), append(*list, k.pattern)
		}
	}
	for i := range t.added {
		k := &t.added[i]
		if j, ok := t.addedByContent(k.pattern); ok {
			k.skip = t.added[j].special
		}
	}
	for i, m := range []*matcher{&t.raw, &t.normalized} {
		if len(texts[i]) == 0 {
			continue
		}
		var err error
		if m.finder, err = added.New(texts[i], 1<<18+size/16); err != nil {
			return err
		}
	}
	return nil
}

func (k *addedToken) normalize(n *normalize.Normalizer, w *normalize.Worker) error {
	if n.Identity() {
		return nil
	}
	var text aligned.Text
	text.Reset(k.content, 0)
	if err := w.Normalize(context.Background(), &text); err != nil {
		return err
	}
	if s := text.String(); s != k.content {
		k.pattern = strings.Clone(s)
	}
	return nil
}

// addedByContent returns the place of a token in t.added.
func (t *Tokenizer) addedByContent(content string) (int32, bool) {
	at, ok := slices.BinarySearchFunc(t.byContent, content, func(i int32,
		s string) int {
		return strings.Compare(t.added[i].content, s)
	})
	if !ok {
		return 0, false
	}
	return t.byContent[at], true
}

// addedByID returns an added token; nil if there is none.
func (t *Tokenizer) addedByID(id uint32) *addedToken {
	// The last one of an id, since it replaces others.
	at, _ := slices.BinarySearchFunc(t.added, id+1, func(k addedToken, id uint32) int { return cmp.Compare(k.id, id) })
	if at == 0 || t.added[at-1].id != id {
		return nil
	}
	return &t.added[at-1]
}

// divide calls f for the added tokens in s, and for the parts between them, in order. With asText special tokens are
// not found.
func (m *matcher) divide(s string, asText bool, found *[]added.Match, f func(from, to int, k *addedToken) error) error {
	if m.finder == nil {
		return f(0, len(s), nil)
	}
	*found = m.finder.Find((*found)[:0], s)
	if len(*found) == 0 {
		return f(0, len(s), nil)
	}
	table := chars.Load()
	begin, blank := 0, 0 // behind the last token; behind the last white space that was looked at
	for _, x := range *found {
		k := &m.t.added[m.tokens[x.Text]]
		from, to := x.Start, x.End
		if asText && k.special || k.singleWord && !single(table, s, from, to) {
			continue
		}
		if k.lstrip {
			for from > begin {
				r, n := utf8.DecodeLastRuneInString(s[begin:from])
				if table.Of(r)&chars.Space == 0 {
					break
				}
				from -= n
			}
			from = max(from, begin)
		}
		if k.rstrip {
			if blank < to {
				blank = to + spaces(table, s[to:])
			}
			to = blank
		}
		if from >= to { // white space that another token has taken
			continue
		}
		if begin < from {
			if err := f(begin, from, nil); err != nil {
				return err
			}
		}
		if err := f(from, to, k); err != nil {
			return err
		}
		begin = to
	}
	if begin < len(s) {
		return f(begin, len(s), nil)
	}
	return nil
}

// spaces returns the length of the white space that a text begins with.
func spaces(table *chars.Table, s string) int {
	for i, r := range s {
		if table.Of(r)&chars.Space == 0 {
			return i
		}
	}
	return len(s)
}

// single reports whether a part of a text has no letters, digits or the like beside it.
func single(table *chars.Table, s string, from, to int) bool {
	before, n := utf8.DecodeLastRuneInString(s[:from])
	if n > 0 && table.Of(before)&chars.Word != 0 {
		return false
	}
	after, n := utf8.DecodeRuneInString(s[to:])
	return n == 0 || table.Of(after)&chars.Word == 0
}
