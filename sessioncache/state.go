// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Block has what is remembered of a block of a conversation: what was made of it, by what a
// later answer is seen to refer to it, and how often one did.

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// BlockState is what is remembered of one message block.
type BlockState struct {
	// Edit is what the lineage has committed to doing with the block, nil if
	// it goes out as it came.
	Edit *Edit
	// Trait is how to recognise a reference to the block, empty for blocks
	// that are never pruned.
	Trait Trait
	// Path is a hash of the file that a call, or the call that a result
	// answers, is about; 0 if it is about none.
	Path uint64
	// File is a hash of the last two names of that path: calls from different
	// folders name a file differently.
	File uint64
	// Content is a hash of the text of a tool result that a later one may be
	// equal to, 0 if none was taken.
	Content uint64
	// Inserted is what is put beside the block in every request, nil if nothing
	// is: what was said on the way to a message of the client.
	Inserted *Inserted
	// Unused is the number of answers in a row that did not refer to it.
	Unused uint16
	// Used is the number of answers that did, up to 65,535.
	Used uint16
	// Turn and Task count the answers and the prompts of a person before it.
	Turn, Task uint16
	// Replaced is the number of bytes in an edit's input that say what it
	// replaced, at most 65,535.
	Replaced uint16
	// Sampled is the number of lines of the block that are looked for in later
	// blocks, Again how many were found there, each as often as it was.
	Sampled uint8
	// Again: see Sampled.
	Again uint8
	// Source is the share of its lines that look like source code, in sixteenths.
	Source uint8
	// Class is what kind of call the block is, or answers.
	Class Class
	// Whole reports whether the call reads a file from beginning to end.
	Whole bool
	// Shell reports whether the call is made through a shell.
	Shell bool
	// Test reports whether the file is one of tests, by its name.
	Test bool
	// Relies reports whether a result was admitted with less than its text, because
	// earlier blocks about the same file show the rest.
	Relies bool
	// Pinned reports whether the model has asked for the block after it was folded.
	Pinned bool
	// Quotes reports whether what the client sends of its own holds what stubs or notes
	// begin with.
	Quotes bool
	// Regret reports whether a result shows that folded text was missed: the file was
	// read again, or an edit of it did not find its place.
	Regret bool
}

// Trait is what a block can be recognised by in an answer, without its content.
// How, the pipeline says. Very many are held: a string is one piece of memory,
// into which the garbage collector need not look.
type Trait string

var states = reuse.Slices[BlockState]{Plain: true}

// NewBlockStates returns the states of n blocks, of which the first are known. Once the session has
// them they are recycled when another request has taken their place.
func NewBlockStates(n int, known ...BlockState) []BlockState {
	all := states.Make(n)
	all = all[:cap(all)]
	clear(all[copy(all[:n], known):])
	return all[:n]
}

// RecycleStates takes states back. Nothing may use them from here on. What they refer to is let go
// when they are used again, or with the next collections of garbage.
func RecycleStates(of []BlockState) { states.Recycle(of) }
