package tensor

import (
	"encoding/binary"
	"errors"
	"testing"
)

// TestByteOrder checks that machines of the other byte order are refused, and that this one is if it has that.
func TestByteOrder(t *testing.T) {
	if err := byteOrder(binary.BigEndian); !errors.Is(err, ErrByteOrder) {
		t.Errorf("the most significant byte first: %v", err)
	}
	if err := byteOrder(binary.LittleEndian); err != nil {
		t.Errorf("the least significant byte first: %v", err)
	}
	first := FromSlice([]uint16{1}, 1).Bytes()[0] == 1 // how tensors are stored here
	if err := CheckByteOrder(); (err == nil) != first {
		t.Errorf("this machine: %v, and the least significant byte is first: %v", err, first)
	}
}
