// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

// collected is an answer that is gathered as its events come.
type collected struct {
	flow    *flow
	message *message
	blocks  []*block
}

func (c *collected) start(m *message)            { c.message = m }
func (c *collected) open(b *block)               { c.blocks = append(c.blocks, b) }
func (c *collected) delta(b *block, text string) { b.content = append(b.content, text...) }

func (c *collected) has(kind blockKind) bool {
	for _, b := range c.blocks {
		if b.kind == kind && (len(b.content) > 0 || kind == blockCall) {
			return true
		}
	}
	return false
}

// join appends the contents of all blocks of a kind.
func (c *collected) join(dst []byte, kind blockKind) []byte {
	for _, b := range c.blocks {
		if b.kind == kind {
			dst = append(dst, b.content...)
		}
	}
	return dst
}

// list appends an array of what each returns for the blocks, and nothing if it
// returns nothing for all of them.
func (c *collected) list(dst []byte, head string, each func([]byte, *block) []byte) []byte {
	empty := true
	for _, b := range c.blocks {
		before := len(dst)
		if empty {
			dst = append(dst, head...)
		} else {
			dst = append(dst, ',')
		}
		start := len(dst)
		if dst = each(dst, b); len(dst) == start {
			dst = dst[:before]
			continue
		}
		empty = false
	}
	if !empty {
		dst = append(dst, ']')
	}
	return dst
}

// collector writes an answer in one piece, once it is complete.
type collector struct {
	collected
	out    *output
	failed **Failure
}

func (c *collector) close(*block)    {}
func (c *collector) ping()           {}
func (c *collector) fail(f *Failure) { *c.failed = f }

func (c *collector) finish(*message) {
	c.out.buf = dialects[c.flow.client].appendWhole(c.out.buf, &c.collected)
}
