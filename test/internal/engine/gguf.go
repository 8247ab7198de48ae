// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// Kinds of tokens, as GGUF numbers them.
const (
	tokenNormal  = 1
	tokenControl = 3
	tokenOwn     = 4
)

// Types of values, as GGUF numbers them.
const (
	typeUint32  = uint32(4)
	typeInt32   = uint32(5)
	typeFloat32 = uint32(6)
	typeBool    = uint32(7)
	typeString  = uint32(8)
	typeArray   = uint32(9)
)

const alignment = 32

// gguf is a file of metadata and tensors of 32-bit floats, in version 3 of the format.
type gguf struct {
	keys    []string
	values  []any
	tensors []tensor
}

type tensor struct {
	name  string
	shape []uint64
	next  func() float32
}

func (f *gguf) set(key string, value any) {
	f.keys, f.values = append(f.keys, key), append(f.values, value)
}

func (f *gguf) tensor(name string, next func() float32, shape ...uint64) {
	f.tensors = append(f.tensors, tensor{name, shape, next})
}

func (t *tensor) len() uint64 {
	n := uint64(1)
	for _, d := range t.shape {
		n *= d
	}
	return n
}

// output counts the written bytes and stores the first error.
type output struct {
	*bufio.Writer
	n   int
	err error
}

func (o *output) put(values ...any) {
	for _, v := range values {
		if s, ok := v.(string); ok {
			o.put(uint64(len(s)), []byte(s))
			continue
		}
		o.n += binary.Size(v)
		if err := binary.Write(o.Writer, binary.LittleEndian, v); err != nil && o.err == nil {
			o.err = err
		}
	}
}

func (o *output) align() {
	for o.n%alignment != 0 {
		o.put(uint8(0))
	}
}

func (o *output) value(v any) {
	switch v := v.(type) {
	case uint32:
		o.put(typeUint32, v)
	case float32:
		o.put(typeFloat32, v)
	case bool:
		o.put(typeBool, v)
	case string:
		o.put(typeString, v)
	case []int32:
		o.put(typeArray, typeInt32, uint64(len(v)), v)
	case []string:
		o.put(typeArray, typeString, uint64(len(v)))
		for _, s := range v {
			o.put(s)
		}
	default:
		o.err = fmt.Errorf("gguf: no type for %T", v)
	}
}

func (f *gguf) write(to io.Writer) error {
	o := &output{Writer: bufio.NewWriterSize(to, 1<<20)}
	o.put([]byte("GGUF"), uint32(3), uint64(len(f.tensors)), uint64(len(f.keys)))
	for i, key := range f.keys {
		o.put(key)
		o.value(f.values[i])
	}
	offset := uint64(0)
	for _, t := range f.tensors {
		o.put(t.name, uint32(len(t.shape)), t.shape, uint32(0), offset)
		offset += (t.len()*4 + alignment - 1) / alignment * alignment
	}
	o.align()
	for _, t := range f.tensors {
		row := make([]float32, t.shape[0])
		for range t.len() / t.shape[0] {
			for i := range row {
				row[i] = t.next()
			}
			o.put(row)
		}
		o.align()
	}
	if o.err != nil {
		return o.err
	}
	return o.Flush()
}
