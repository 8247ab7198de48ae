// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Credential stores secret headers, such as an API key. It cannot be printed, logged or encoded:
// each of these shows a placeholder or fails.
type Credential struct {
	mu     sync.Mutex
	fields []field
}

type field struct {
	name string
	// The value is masked in memory, so neither a heap dump nor a stray read shows it.
	masked, mask []byte
}

const placeholder = "[credential]"

var errSecret = errors.New("a credential is not encoded")

// Seal adds a header.
func (c *Credential) Seal(name, value string) {
	f := field{name, make([]byte, len(value)), make([]byte, len(value))}
	_, _ = rand.Read(f.mask) // never fails
	for i := range f.masked {
		f.masked[i] = value[i] ^ f.mask[i]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fields = append(c.fields, f)
}

// Reveal calls use for each header, in the order of Seal. The caller must not keep the values.
func (c *Credential) Reveal(use func(name, value string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.fields {
		plain := make([]byte, len(f.masked))
		for i := range plain {
			plain[i] = f.masked[i] ^ f.mask[i]
		}
		use(f.name, string(plain))
		clear(plain)
	}
}

// Wipe overwrites the headers and removes them.
func (c *Credential) Wipe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.fields {
		clear(f.masked)
		clear(f.mask)
	}
	c.fields = nil
}

// Size is the memory that the credential takes, in bytes.
func (c *Credential) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := int64(64)
	for _, f := range c.fields {
		n += int64(len(f.name) + 2*len(f.masked) + 64)
	}
	return n
}

// String implements fmt.Stringer and returns a placeholder.
func (*Credential) String() string { return placeholder }

// GoString implements fmt.GoStringer and returns a placeholder.
func (*Credential) GoString() string { return placeholder }

// Format implements fmt.Formatter and writes a placeholder for every verb.
func (*Credential) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, placeholder) }

// MarshalText implements encoding.TextMarshaler and fails.
func (*Credential) MarshalText() ([]byte, error) { return nil, errSecret }

// MarshalJSON implements json.Marshaler and fails.
func (*Credential) MarshalJSON() ([]byte, error) { return nil, errSecret }

// GobEncode implements gob.GobEncoder and fails.
func (*Credential) GobEncode() ([]byte, error) { return nil, errSecret }
