// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

// Collected is an answer that is gathered as its events come.
type Collected struct {
	// Flow is where the events come from.
	Flow *Flow
	// Answer is what is known of the answer, nil before it has started.
	Answer *Answer
	// Blocks are its blocks, with their contents.
	Blocks []*Block
}

// Start takes the beginning of an answer.
func (c *Collected) Start(m *Answer) { c.Answer = m }

// Open takes a block.
func (c *Collected) Open(b *Block) { c.Blocks = append(c.Blocks, b) }

// Delta takes more of a block.
func (c *Collected) Delta(b *Block, text string) { b.Content = append(b.Content, text...) }

// Has reports whether there is a call, or a block of another kind that is not empty.
func (c *Collected) Has(kind BlockKind) bool {
	for _, b := range c.Blocks {
		if b.Kind == kind && (len(b.Content) > 0 || kind == CallBlock) {
			return true
		}
	}
	return false
}

// Join appends the contents of all blocks of a kind.
func (c *Collected) Join(dst []byte, kind BlockKind) []byte {
	for _, b := range c.Blocks {
		if b.Kind == kind {
			dst = append(dst, b.Content...)
		}
	}
	return dst
}

// List appends an array of what each returns for the blocks, and nothing if it
// returns nothing for all of them.
func (c *Collected) List(dst []byte, head string, each func([]byte, *Block) []byte) []byte {
	empty := true
	for _, b := range c.Blocks {
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
	Collected
	out    *Buffer
	failed **Failure
}

func (c *collector) Close(*Block) {}

func (c *collector) Ping() {}

func (c *collector) Fail(f *Failure) { *c.failed = f }

func (c *collector) Finish(*Answer) {
	c.out.Buf = dialectOf(c.Flow.Client).AppendAnswer(c.out.Buf, &c.Collected)
}
