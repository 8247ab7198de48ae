// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
)

// maxHeader bounds the header of a safetensors file. Supported models have tens of kilobytes.
const maxHeader = 16 << 20

// tensor is an entry of a safetensors header.
type tensor struct {
	Type    string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// weights are the tensors of a safetensors file. They are read on demand, so the file stays open.
type weights struct {
	file    io.ReaderAt
	tensors map[string]tensor
	// data is the offset of the tensors in the file.
	data int64
}

func openWeights(path string) (*weights, *os.File, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the folder
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	w, err := readWeights(f, info.Size())
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, f, nil
}

// readWeights reads the header of a file of a size, and checks that every tensor is in the file and
// as long as its shape says.
func readWeights(f io.ReaderAt, size int64) (*weights, error) {
	var length [8]byte
	if _, err := f.ReadAt(length[:], 0); err != nil {
		return nil, fmt.Errorf("length of header: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > size-8 {
		return nil, fmt.Errorf("header of %d bytes in a file of %d", n, size)
	}
	head := make([]byte, n)
	if _, err := f.ReadAt(head, 8); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(bytes.TrimRight(head, " "), &entries); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	w := &weights{f, make(map[string]tensor, len(entries)), 8 + int64(n)}
	for _, name := range slices.Sorted(maps.Keys(entries)) { // sorted, so that a damaged file always yields the same error
		if name == "__metadata__" {
			continue
		}
		var t tensor
		if err := json.Unmarshal(entries[name], &t); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		if err := t.check(size - w.data); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		w.tensors[name] = t
	}
	return w, nil
}

func (t tensor) check(size int64) error {
	n := t.width()
	if n == 0 {
		n = 1 // tensors of other types may exist, and are not read
	}
	from, to := t.Offsets[0], t.Offsets[1]
	if from < 0 || to < from || to > size {
		return fmt.Errorf("offsets %v lie outside of the file's %d bytes", t.Offsets, size)
	}
	for _, d := range t.Shape {
		// Divide rather than multiply, so that the product cannot overflow.
		if d < 0 || d > 0 && n > size/int64(d) {
			return fmt.Errorf("shape %v does not fit into the file", t.Shape)
		}
		n *= int64(d)
	}
	if t.width() != 0 && to-from != n {
		return fmt.Errorf("%d bytes for shape %v of %s", to-from, t.Shape, t.Type)
	}
	return nil
}

// width is the number of bytes of an element, 0 for unsupported types.
func (t tensor) width() int64 {
	switch t.Type {
	case "F32":
		return 4
	case "F16", "BF16":
		return 2
	}
	return 0
}

// tensor returns an entry by name and checks its shape; 0 matches any length.
func (w *weights) tensor(name string, shape ...int) (tensor, error) {
	t, ok := w.tensors[name]
	if !ok {
		return t, fmt.Errorf("tensor %q is missing", name)
	}
	if t.width() == 0 {
		return t, fmt.Errorf("tensor %q: type %q: F32, F16 and BF16 are understood", name, t.Type)
	}
	fits := slices.EqualFunc(t.Shape, shape, func(is, want int) bool { return is == want || want == 0 && is > 0 })
	if !fits {
		return t, fmt.Errorf("tensor %q has shape %v, not %v", name, t.Shape, shape)
	}
	return t, nil
}

// vector reads a whole one-dimensional tensor.
func (w *weights) vector(name string, n int) ([]float32, error) {
	t, err := w.tensor(name, n)
	if err != nil {
		return nil, err
	}
	v := make([]float32, n)
	if err := w.read(v, t, 0, nil); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	return v, nil
}

// read fills dst with elements of a tensor from an index on. It allocates a buffer if buf is too short.
func (w *weights) read(dst []float32, t tensor, from int, buf []byte) error {
	width := int(t.width())
	if need := len(dst) * width; len(buf) < need {
		buf = make([]byte, need)
	} else {
		buf = buf[:need]
	}
	if _, err := w.file.ReadAt(buf, w.data+t.Offsets[0]+int64(from)*int64(width)); err != nil {
		return err
	}
	switch t.Type {
	case "F32":
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(buf[4*i:]))
		}
	case "BF16":
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(buf[2*i:])) << 16)
		}
	default:
		for i := range dst {
			dst[i] = half(binary.LittleEndian.Uint16(buf[2*i:]))
		}
	}
	return nil
}

// half converts a float16.
func half(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0:
		// A subnormal number or zero.
		v := float32(fraction) / (1 << 24)
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}
