// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"bytes"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Conversation is one growing conversation in a session. Its fields are read and changed only while the
// session is locked.
type Conversation struct {
	id    int
	known *wire.Known
	left  bool // see [Session.Leave]
	// restored reports whether the conversation knows its blocks only from a snapshot. That is so if the
	// last request went to another process, or the session has been idle for a while.
	restored bool
	here     bool     // the last request came to this process
	claimed  bool     // no answer to the last request is known
	entries  []int32  // see [Conversation.Edited]; nil if unknown
	named    [2]named // digests of Reply and First

	Ledger
	Retained
	Warmth
	Spending
	Folding
	Misses
	Intercepted
	// Tools are the tool definitions of the last request that had any, a JSON array, for requests
	// that leave them out. Nil where none are kept. The array is immutable and not in snapshots.
	Tools []byte
	// Model is the model of the last request.
	Model string
	// Kind is the kind of conversation, see [RequestKind].
	Kind uint32
	// Requests counts successful requests.
	Requests int
}

// Ledger is the edit ledger of a conversation: the edits that it has committed to.
type Ledger struct {
	// States has one entry for each message block of the last request.
	States []BlockState
	// Observed reports whether the edits in States were only computed, never sent.
	Observed bool
	// Departed reports whether computed edits would ever have changed the client's bytes, while
	// edits are only computed.
	Departed bool
	// Refused are the kinds of edits that the upstream has refused. Those kinds are no longer used
	// in this conversation.
	Refused wire.EditKinds
	// Diverged reports whether sent bytes have ever differed from the client's own.
	Diverged bool
	// Order has the hashes of the last request's tools in the order in which they were sent, nil for
	// the client's order.
	Order []wire.Hash
}

// Intercepted is traffic between the model and the proxy that the client does not see.
type Intercepted struct {
	// Expand reports whether the request declares the tool that returns folded text to the model,
	// from the first request on.
	Expand bool
	// Said are the upstream's answers behind the client's last message, where that message merges
	// several answers or holds less than the upstream said. Usually nil.
	Said []intercept.Iteration
	// Unsaid reports whether such answers existed but are no longer known.
	Unsaid bool
	// Copied reports whether the last answer was ended early because a call contained one of our
	// stubs or notes.
	Copied bool
	// Expanded counts the blocks that the model has asked for again, by class.
	Expanded [Classes]uint16
}

// Len returns the number of message blocks of the last request.
func (l *Conversation) Len() int { return len(l.States) }

// ID is the number of the conversation in its session, -1 for nil.
func (l *Conversation) ID() int {
	if l == nil {
		return -1
	}
	return l.id
}

// Restored reports whether the [BlockState] of each block must be derived again, except for its
// edits and counters.
func (l *Conversation) Restored() bool { return l.restored }

// Edited returns the blocks of States with an entry in the ledger, see [BlockState.HasEntry], in order.
// Some may have lost theirs since. The result must not be modified.
func (l *Conversation) Edited() []int32 {
	// Other processes change the entries of a restored conversation.
	if l.entries != nil && !l.restored {
		return l.entries
	}
	entries := []int32{}
	for i := range l.States {
		if l.States[i].HasEntry() {
			entries = append(entries, int32(i))
		}
	}
	return entries
}

// SetEdited sets the blocks with an entry after a change of States, nil if they are unknown.
func (l *Conversation) SetEdited(entries []int32) { l.entries = entries }

// Claimed reports whether no answer to the last request is known. That request belongs to another
// process, or to one that has ended.
func (l *Conversation) Claimed() bool { return l.claimed }

// Known returns the parsed form of the last request.
func (l *Conversation) Known() *wire.Known { return l.known }

func (l *Conversation) chain() []wire.Block {
	if l.known == nil {
		return nil
	}
	return l.known.Chain()
}

// common returns the number of blocks that a request has in common with the conversation. Other system messages at
// the start count as common if the first answer is.
func (l *Conversation) common(v *wire.View) int {
	known, blocks, chain := v.Shared(l.known), v.MessageBlocks(), l.chain()
	n := known + CommonBlocks(blocks[known:], chain[known:])
	if n < len(blocks) && n < len(chain) && blocks[n].Role == wire.RoleSystem {
		if from := wire.SystemMessages(blocks); n < from && from == wire.SystemMessages(chain) {
			if same := CommonBlocks(blocks[from:], chain[from:]); AnswersIn(blocks[from:from+same]) > 0 {
				return from + same
			}
		}
	}
	return n
}

// supersededBy reports whether a request with n common blocks takes the conversation's place: it
// continues the conversation, or differs only after the last answer.
func (l *Conversation) supersededBy(v *wire.View, n int) bool {
	// Clients drop a reminder or rewrite their last message.
	chain := l.chain()
	for _, b := range chain[min(n, len(chain)):] {
		if b.Role == wire.RoleAssistant {
			// A request without this answer branches off; both branches stay.
			return false
		}
	}
	return true
}

// spoken returns n less the common end of a message that would be empty without its removed blocks.
// There the conversation continues differently, for example with the call that a text had announced.
func (l *Conversation) spoken(v *wire.View, n int) int {
	if n == 0 || n > len(l.States) {
		return n
	}
	blocks := v.MessageBlocks()
	m := &v.Messages[blocks[n-1].Message]
	out := n
	for i := int(m.First) - v.System; i < int(m.End)-v.System; i++ {
		if i < n && l.States[i].Edit != nil && l.States[i].Edit.Op == wire.OpRemove {
			out = min(out, i)
		} else if !blocks[i].IsThinking() {
			return n
		}
	}
	return out
}

// inherit takes over the properties of the whole conversation from the parent conversation. Knowledge of
// another chain in its place is dropped.
func (l *Conversation) inherit(parent *Conversation) {
	// The new branch has no cache entries of its own yet.
	l.Ends, l.Warmed, l.Folding = nil, time.Time{}, Folding{}
	l.Observed, l.Departed, l.Refused, l.TTL = parent.Observed, parent.Departed, parent.Refused, parent.TTL
	l.Diverged, l.PromptPrefix = parent.Diverged, parent.PromptPrefix
	l.Expand, l.Expanded, l.Tools = parent.Expand, parent.Expanded, parent.Tools
}

// The account of a conversation: the part that the provider retains, cache warmth, usage, cost, and
// the results of editing it.

// Retained is the part of a conversation that the provider retains, so that a request need not carry
// it.
type Retained struct {
	// Partial reports whether the requests carry only the end of the conversation, because the
	// provider has the rest.
	Partial bool
	// Beyond reports whether the provider has received turns after the last whole request. Those
	// turns carried only the end of the conversation; the edit ledger belongs to the whole request.
	Beyond bool
	// Less is the number of tokens by which the history at the provider is shorter than the
	// client's own.
	Less int
	// Reply is a hash of the id of the last response where a request may continue from it, see
	// [wire.Conversation.Continues]. First is the hash of [wire.View.FirstAnswer]. Zero for none.
	Reply, First wire.Hash
}

// Warmth tells when the prefix of a conversation was last read or written upstream, and where its
// cache entries end.
type Warmth struct {
	// Created and Started are the starts of the first and the last request. Cache lifetimes count
	// from the start of a request.
	Created, Started time.Time
	// Warmed is the start of the last ping that found the prefix cached, zero if there was none.
	// Such a ping prolongs the lifetime as a request does.
	Warmed time.Time
	// Pauses counts the pauses longer than the cache lifetime after which the conversation went on.
	Pauses int
	// Kept is the saving from pings in those pauses, less the cost of all pings, in units of one
	// uncached input token.
	Kept float64
	// TTL is the lifetime that the upstream gave the prefix, 0 if unknown.
	TTL time.Duration
	// Ends are the block counts at which the upstream is expected to have a cache entry, with the
	// time at which the entry was last written or read.
	Ends Ends
}

// Warm reports whether the prefix is expected to be cached upstream at a time. An unknown lifetime
// counts as ttl.
func (w *Warmth) Warm(at time.Time, ttl time.Duration) bool {
	if w.TTL > 0 {
		ttl = w.TTL
	}
	return ttl == 0 || at.Sub(w.LastUse()) <= ttl
}

// LastUse returns when the lifetime of the cached prefix last restarted: the start of the last
// request, or of a later ping.
func (w *Warmth) LastUse() time.Time {
	if w.Warmed.After(w.Started) {
		return w.Warmed
	}
	return w.Started
}

// Spending is the usage and the cost of a conversation's requests.
type Spending struct {
	// Last is the usage of the last request, Total that of all of them.
	Last, Total wire.Usage
	// Cleared is the part of the last prompt that was left out on the client's order, usually by
	// the provider.
	Cleared wire.Cleared
	// Estimate is the estimated size of the last request, made before its usage was known. Together
	// with Last it corrects the next estimate.
	Estimate int
	// OriginalTokens and SentTokens sum up the estimates of all requests.
	OriginalTokens, SentTokens int64
	// Cost is the cost of all requests.
	Cost CostSummary
	// Spent is the cost of all prompts by reported usage, in units of one uncached input token.
	Spent float64
	// PromptPrefix is a hash of the client's last prompt up to its first message block.
	PromptPrefix uint64
}

// CostSummary is the cost of requests and the cost of the client's own bytes in their place,
// answers included.
type CostSummary struct {
	// Units and ClientUnits are in units of one uncached input token.
	Units       float64 `json:"units"`
	ClientUnits float64 `json:"client_units"`
	// USD and ClientUSD are in US dollars, 0 where prices are not known.
	USD       float64 `json:"usd"`
	ClientUSD float64 `json:"client_usd"`
	// WouldSave and WouldSaveUSD are the net savings that merely computed edits would have brought,
	// since the process began.
	WouldSave float64 `json:"would_save,omitempty"`
	// WouldSaveUSD: see WouldSave.
	WouldSaveUSD float64 `json:"would_save_usd,omitempty"`
}

// Add adds the cost of a request.
func (c *CostSummary) Add(units, clientUnits, usd, clientUSD float64) {
	c.Units += units
	c.ClientUnits += clientUnits
	c.USD += usd
	c.ClientUSD += clientUSD
}

// Folding is the outcome of the planner's decisions.
type Folding struct {
	// Decision is a readable reason why the last request was edited or left alone.
	Decision string
	// Settled is the number of blocks that the last fold examined. Blocks that it left are expected
	// to stay.
	Settled int
	// Staked is the expected initial cost of folds of cached history, less their savings so far, in
	// units of one uncached input token.
	Staked float64
	// Removed is the number of tokens that folds have removed.
	Removed float64
	// Caution is the factor by which recent folds cost more than planned, 0 or 1 where they cost no
	// more.
	Caution float64
}

// Misses are the requests for which the upstream's cache had less than expected.
type Misses struct {
	// Break is the reason of the last miss.
	Break string
	// Breaks counts misses by reason.
	Breaks map[string]int
}

// Broke records a request for which the upstream's cache had less than expected.
func (m *Misses) Broke(reason string) {
	if m.Breaks == nil {
		m.Breaks = make(map[string]int)
	}
	m.Break = reason
	m.Breaks[reason]++
}

// End is a place in a conversation at which the upstream has a cache entry.
type End struct {
	// Blocks is the number of message blocks before it.
	Blocks int
	// At is when the entry was last written or read.
	At time.Time
}

// maxEnds bounds the remembered entries of a conversation.
const maxEnds = 512

// Ends are the cache entries of one conversation.
type Ends []End

// Mark records that an entry was written or read at a block count.
func (e *Ends) Mark(blocks int, at time.Time) {
	oldest := 0
	for i := range *e {
		end := &(*e)[i]
		if end.Blocks == blocks {
			end.At = at
			return
		}
		if end.At.Before((*e)[oldest].At) {
			oldest = i
		}
	}
	// The least recently used entry makes room.
	if len(*e) == maxEnds {
		(*e)[oldest] = End{blocks, at}
		return
	}
	*e = append(*e, End{blocks, at})
}

// Marked returns when the entry that ends at a block count was last written or read.
func (e Ends) Marked(blocks int) (at time.Time, known bool) {
	for i := range e {
		if e[i].Blocks == blocks {
			return e[i].At, true
		}
	}
	return time.Time{}, false
}

// Cut drops the entries beyond a block count, because their prefix has changed.
func (e *Ends) Cut(blocks int) {
	*e = slices.DeleteFunc(*e, func(e End) bool { return e.Blocks > blocks })
}

// Snapshot writes the entries of a conversation that began at a time.
func (e Ends) Snapshot(w *PackedWriter, began time.Time) {
	w.Uint(uint64(len(e)))
	for i := range e {
		w.Uint(uint64(e[i].Blocks))
		w.Time(e[i].At, began)
	}
}

// Restore reads the entries that [Ends.Snapshot] wrote.
func (e *Ends) Restore(r *PackedReader, began time.Time) {
	n := r.Count(2)
	*e = slices.Grow(*e, n)
	for range n {
		*e = append(*e, End{r.Small(wire.MaxElements), r.Time(began)})
	}
}

// BlockState is the state of one message block: its edit, the trait by which later answers refer to
// it, and how often they did.
type BlockState struct {
	// Edit is the edit that the conversation has committed to, nil if the block is sent unmodified.
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
	// Turn and Task count the answers and the prompts of the user before it.
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
	// Missed reports whether a result is a sign of a miss: the file was read again, or the old text
	// of an edit was not found.
	Missed bool
}

// HasEntry reports whether the block has an edit, an insertion or a sign of a miss.
func (s *BlockState) HasEntry() bool { return s.Edit != nil || s.Inserted != nil || s.Missed }

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

// Edit is one entry of the edit ledger. It is immutable and replayed byte for byte.
type Edit struct {
	// Stage is the name of the stage that made the edit.
	Stage string
	// Op and Value are as in [wire.Edit]. Value is nil until [ResolveEdits] has made it.
	Op    wire.Op
	Value []byte
	// Recipe makes Value from the block's body, see [DescribeBlocks].
	Recipe []byte
}

// Same reports whether two edits send the same bytes. Nil is no edit.
func (e *Edit) Same(o *Edit) bool {
	if e == nil || o == nil || e == o {
		return e == o
	}
	return e.Op == o.Op && sameValue(e.Value, o.Value, e.Recipe, o.Recipe)
}

// Outlives reports whether the edit can be made again by another process.
func (e *Edit) Outlives() bool { return e != nil && (len(e.Value) == 0 || len(e.Recipe) > 0) }

// Inserted are insertions that exist upstream and not at the client. They are immutable and
// replayed byte for byte.
type Inserted struct {
	// Inserts are the insertions, in order.
	Inserts []Insert
}

// Insert is one insertion at a block.
type Insert struct {
	// Op and Value are as in [wire.Edit]. Value is nil until [ResolveEdits] has made it.
	Op    wire.Op
	Value []byte
	// Recipe makes Value from the bodies up to its block, see [DescribeBlocks].
	Recipe []byte
}

// Size is the number of inserted bytes.
func (w *Inserted) Size() (n int) {
	for _, i := range w.Inserts {
		n += len(i.Value)
	}
	return n
}

// Same reports whether both insert the same bytes. Nil is no insertion.
func (w *Inserted) Same(o *Inserted) bool {
	if w == nil || o == nil || w == o {
		return w == o
	}
	return slices.EqualFunc(w.Inserts, o.Inserts,
		func(a, b Insert) bool { return a.Op == b.Op && sameValue(a.Value, b.Value, a.Recipe, b.Recipe) })
}

// Outlives reports whether another process can make all insertions again.
func (w *Inserted) Outlives() bool {
	return w != nil && len(w.Inserts) > 0 &&
		!slices.ContainsFunc(w.Inserts, func(in Insert) bool { return len(in.Recipe) == 0 })
}

// sameValue compares two values, or their recipes.
func sameValue(a, b, recipeA, recipeB []byte) bool {
	// A recipe begins with a hash of its value.
	if len(recipeA) > 4 && len(recipeB) > 4 {
		return bytes.Equal(recipeA[:4], recipeB[:4])
	}
	return bytes.Equal(a, b)
}

// Class is the kind of a tool call, as far as its name and arguments tell.
type Class uint8

// The classes. ClassNone is a block that is neither a call nor the result of one.
const (
	ClassNone Class = iota
	ClassOther
	ClassRead
	ClassEdit
	ClassWrite
	ClassSearch
	ClassCommand
)

// Classes is the number of classes, for arrays indexed by Class.
const Classes = int(ClassCommand) + 1

var classNames = [Classes]string{"none", "other", "read", "edit", "write", "search", "command"}

// ClassNames returns the names of all classes.
func ClassNames() []string { return classNames[:] }

// String returns the name of the class as in metrics and reports.
func (c Class) String() string { return classNames[c] }
