package tokenizer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir/tensor"
)

// TestTensors checks the inputs that a batch gives for models.
func TestTensors(t *testing.T) {
	k, _ := load(t)
	b, err := k.Encode(t.Context(), []string{"The quick brown fox", "a"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, err := b.Tensors()
	if err != nil || len(in) != 3 {
		t.Fatal(in, err)
	}
	n := b.Encodings[0].Len()
	got := tensor.Data[int64](in["input_ids"].(*tensor.Tensor))
	want := append(slices.Clone(b.Encodings[0].IDs), b.Encodings[1].IDs...)
	want = append(want, make([]int64, n-b.Encodings[1].Len())...)
	if !slices.Equal(got, want) || !slices.Equal(in["input_ids"].(*tensor.Tensor).Shape(), []int{2, n}) {
		t.Errorf("input_ids: %v, expected %v", got, want)
	}
	mask := tensor.Data[int64](in["attention_mask"].(*tensor.Tensor))
	if mask[n] != 1 || mask[2*n-1] != 0 || mask[n-1] != 1 {
		t.Errorf("attention_mask: %v", mask)
	}
	in, err = b.Tensors("position_ids")
	if err != nil || !slices.Equal(tensor.Data[int64](in["position_ids"].(*tensor.Tensor))[:3], []int64{0, 1, 2}) {
		t.Error(in, err)
	}
	if _, err := b.Tensors("ids"); err == nil || !strings.Contains(err.Error(), `found "ids"`) {
		t.Error(err)
	}
	if _, err := (&Batch{}).Tensors(); err == nil {
		t.Error("no texts have tensors")
	}
}

// TestInvalid checks that each byte that is not UTF-8 is U+FFFD with an offset of one byte.
func TestInvalid(t *testing.T) {
	k, _ := load(t)
	const given, same = "a\xff\xfe b\xc3 c", "a\uFFFD\uFFFD b\uFFFD c"
	e, err := k.EncodeText(t.Context(), given, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := k.EncodeText(t.Context(), same, Options{})
	if err != nil || !slices.Equal(e.IDs, f.IDs) {
		t.Fatalf("%v, expected %v, %v", e.IDs, f.IDs, err)
	}
	for i, o := range e.Offsets {
		as := strings.ToValidUTF8(given[o.Start:o.End], "?")
		if want := strings.ReplaceAll(same[f.Offsets[i].Start:f.Offsets[i].End], "\uFFFD", "?"); as != want && len(as) != len(want) {
			t.Errorf("token %d is %q, expected %q", i, as, want)
		}
	}
	if last := e.Offsets[len(e.Offsets)-1]; last.End != len(given) {
		t.Errorf("the last token ends at %d of %d", last.End, len(given))
	}
}

// TestContext checks that long texts end when the context does.
func TestContext(t *testing.T) {
	k, _ := load(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := worktime.Now()
	for name, text := range map[string]string{"one word": strings.Repeat("x", 1<<23), "words": strings.Repeat("x y ", 1<<21)} {
		if _, err := k.EncodeText(ctx, text, Options{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if took := worktime.Now() - start; took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if _, err := k.Encode(ctx, []string{"a", "b"}, Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestConcurrent encodes from many goroutines; the tokens are those of one.
func TestConcurrent(t *testing.T) {
	k, _ := load(t)
	texts := strings.Fields(strings.Repeat("the quick brown fox jumps over lazy dogs and writes 123 numbers — “quoted” 漢字 ", 8))
	want, err := k.Encode(t.Context(), texts, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i, s := range texts {
				e, err := k.EncodeText(t.Context(), s, Options{})
				if err != nil || !slices.Equal(e.IDs, want.Encodings[i].IDs) {
					t.Errorf("%q: %v, %v", s, e, err)
				}
			}
		})
	}
	group.Wait()
}

// TestReadDir reads the files beside tokenizer.json.
func TestReadDir(t *testing.T) {
	_, b := load(t)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(FileName, string(b))
	if k, err := ReadDir(dir); err != nil || k.Config().MaxLength != 0 {
		t.Fatal(err)
	}
	write(ConfigName, `{"model_max_length": 512, "padding_side": "left", "pad_token": {"content": "e"}, "eos_token": "<|endoftext|>",
		"bos_token": null, "add_bos_token": false, "chat_template": "…"}`)
	write(SpecialMapName, `{"pad_token": "x", "mask_token": "m"}`)
	k, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := k.Config()
	if c.MaxLength != 512 || !c.PadLeft || c.TruncateLeft || c.PadToken != "e" || c.Tokens["eos_token"] != "<|endoftext|>" || c.Tokens["mask_token"] != "m" {
		t.Errorf("%+v", c)
	}
	batch, err := k.Encode(t.Context(), []string{"a b", "a"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, err := batch.Tensors("input_ids")
	if err != nil {
		t.Fatal(err)
	}
	pad, _ := k.ID("e")
	if got := tensor.Data[int64](in["input_ids"].(*tensor.Tensor)); got[2] != pad {
		t.Errorf("%v, expected padding %d on the left", got, pad)
	}
	write(ConfigName, `{"padding_side": "up"}`)
	if _, err := ReadDir(dir); err == nil || !strings.Contains(err.Error(), `tokenizer_config.json: padding_side: expected one of`) {
		t.Error(err)
	}
}
