// Package torchtest writes state dicts for tests, as torch.save does.
//
// It imports archive/zip and ir/tensor.
package torchtest

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
)

// File returns a file with the tensors, of float32 or int64, as its state dict. If keys are given, the state dict is
// the entry of the last one, in a dict that is the entry of the one before it.
func File(tensors map[string]*tensor.Tensor, keys ...string) ([]byte, error) {
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	put := func(name string, b []byte) error {
		w, err := z.CreateHeader(&zip.FileHeader{Name: "archive/" + name, Method: zip.Store})
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}
	pickle := []byte("\x80\x02")
	for _, key := range keys {
		pickle = text(append(pickle, '}'), key)
	}
	pickle = append(pickle, '}')
	for i, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		key := fmt.Sprint(i)
		class := map[tensor.DType]string{tensor.Float32: "FloatStorage", tensor.Int64: "LongStorage"}[t.DType()]
		if class == "" {
			return nil, fmt.Errorf("tensor %s: expected float32 or int64, found %v", name, t.DType())
		}
		pickle = append(text(pickle, name), "ctorch._utils\n_rebuild_tensor_v2\n(("...)
		pickle = text(pickle, "storage")
		pickle = append(pickle, "ctorch\n"+class+"\n"...)
		pickle = number(text(text(pickle, key), "cpu"), t.Len())
		pickle = number(append(pickle, "tQ"...), 0)
		pickle = tuple(pickle, t.Shape())
		strides, step := make([]int, t.Rank()), 1
		for i, n := range slices.Backward(t.Shape()) {
			strides[i], step = step, step*n
		}
		pickle = append(tuple(pickle, strides), "\x89}tRs"...)
		var b bytes.Buffer
		var err error
		if t.DType() == tensor.Int64 {
			err = binary.Write(&b, binary.LittleEndian, tensor.Data[int64](t))
		} else {
			err = binary.Write(&b, binary.LittleEndian, tensor.Data[float32](t))
		}
		if err == nil {
			err = put("data/"+key, b.Bytes())
		}
		if err != nil {
			return nil, err
		}
	}
	for range keys {
		pickle = append(pickle, 's')
	}
	if err := put("data.pkl", append(pickle, '.')); err != nil {
		return nil, err
	}
	if err := put("version", []byte("3\n")); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return file.Bytes(), nil
}

func text(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(append(b, 'X'), uint32(len(s))), s...)
}

func number(b []byte, n int) []byte {
	return binary.LittleEndian.AppendUint32(append(b, 'J'), uint32(n))
}

func tuple(b []byte, list []int) []byte {
	b = append(b, '(')
	for _, n := range list {
		b = number(b, n)
	}
	return append(b, 't')
}
