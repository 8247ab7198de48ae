// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// The state of each block: its edit, the trait by which later answers refer to it, and how often
// they did.

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// BlockState is the state of one message block.
type BlockState struct {
	// Edit is the edit that the lineage has committed to, nil if the block is sent unmodified.
	Edit *Edit
	// Trait recognises references to the block, empty for blocks that are never pruned.
	Trait Trait
	// Path is a hash of the file that the call concerns, or that the call of a result concerns; 0
	// if there is none.
	Path uint64
	// File is a hash of the last two names of that path, since calls from different folders name a
	// file differently.
	File uint64
	// Content is a hash of the text of a tool result that a later one may repeat, 0 if none was
	// taken.
	Content uint64
	// Inserted are the insertions beside the block in every request, nil if there are none. They
	// are turns between the model and the proxy before a message of the client.
	Inserted *Inserted
	// Unused is the number of answers in a row that did not refer to it.
	Unused uint16
	// Used is the number of answers that referred to it, up to 65,535.
	Used uint16
	// Turn and Task count the answers and the prompts of a person before it.
	Turn, Task uint16
	// Replaced is the number of bytes of replaced text in an edit's input, at most 65,535.
	Replaced uint16
	// Sampled is the number of the block's lines that are searched in later blocks. Again counts
	// the lines found there, with repetitions.
	Sampled uint8
	// Again: see Sampled.
	Again uint8
	// Source is the share of its lines that look like source code, in sixteenths.
	Source uint8
	// Class is the kind of the call, or of the call that a result answers.
	Class Class
	// Whole reports whether the call reads a file from beginning to end.
	Whole bool
	// Shell reports whether the call is made through a shell.
	Shell bool
	// Test reports whether the file is a test, by its name.
	Test bool
	// Relies reports whether admission shortened a result because earlier blocks about the same
	// file show the rest.
	Relies bool
	// Pinned reports whether the model has asked for the block after it was folded.
	Pinned bool
	// Quotes reports whether the client's own text contains the beginning of a stub or note.
	Quotes bool
	// Regret reports whether a result is a sign of a miss: the file was read again, or the old text
	// of an edit was not found.
	Regret bool
}

// Trait recognises a block in an answer without its content, see the pipeline. It is a string,
// since very many are kept and the garbage collector need not scan strings.
type Trait string

var states = reuse.Slices[BlockState]{Plain: true}

// NewBlockStates returns the states of n blocks, the first of which are known. A session recycles
// them once another request has replaced theirs.
func NewBlockStates(n int, known ...BlockState) []BlockState {
	all := states.Make(n)
	all = all[:cap(all)]
	// Recycled memory has states of other requests.
	clear(all[copy(all[:n], known):])
	return all[:n]
}

// RecycleStates recycles states, which must not be used afterwards. Their edits and insertions are
// freed with the next use of the slice, or by the garbage collector.
func RecycleStates(of []BlockState) { states.Recycle(of) }
