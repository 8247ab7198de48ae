// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

// Collected is an answer collected from its events.
type Collected struct {
	// Flow is the source of the events.
	Flow *Flow
	// Answer is the answer so far, nil before it has started.
	Answer *Answer
	// Blocks are the blocks with their contents.
	Blocks []*Block
}

// Start implements [AnswerWriter].
func (c *Collected) Start(m *Answer) { c.Answer = m }

// Open implements [AnswerWriter].
func (c *Collected) Open(b *Block) { c.Blocks = append(c.Blocks, b) }

// Delta implements [AnswerWriter].
func (c *Collected) Delta(b *Block, text string) { b.Content = append(b.Content, text...) }

// Has reports whether there is a call, or a non-empty block of another kind.
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

// List appends an array with the output of each for every block. Blocks without output are skipped;
// without any output List appends nothing.
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
		// Without output the separator is undone.
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

// collector writes a complete answer as one JSON value.
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
