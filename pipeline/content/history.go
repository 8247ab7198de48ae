// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"iter"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// History is the conversation in one request, block by block, with the stored state of each block.
// Blocks are identified by their index among the message blocks.
type History struct {
	// View is the request.
	View *wire.View
	// Blocks are its message blocks.
	Blocks []wire.Block
	// States holds the stored state of each block.
	States []sessioncache.BlockState
	// Known is the number of blocks that the last request also contained.
	Known int
	// Learned is the number of blocks with a complete state. It is Known, or 0 if another process
	// handled the last request.
	Learned int

	// Callees holds, for each unlearned result, the index of its call plus two. It is nil for few
	// new blocks; 0 marks unsearched blocks.
	Callees []int32
	// Compared counts the bytes of the blocks used in comparisons.
	Compared int
	// Probed counts the lines searched in other blocks.
	Probed int

	Texts   []string // of the new blocks, as far as decoded
	looked  int      // number of readable message blocks plus one; 0 if not counted yet
	arena   *Arena   // memory of the texts
	earlier earlier  // index of earlier blocks
}

// FewBlocks is the number of new blocks up to which a search for each is faster than an index.
const FewBlocks = 64

// Call returns the call that a tool result answers, or -1.
func (h *History) Call(i int) int {
	if h.Callees != nil && i >= h.Learned && h.Callees[i-h.Learned] > 0 {
		return int(h.Callees[i-h.Learned]) - 2
	}
	return CallOf(h.View, i)
}

// maxText limits the tool results that are read, in bytes from the first one on. Later results are
// sent unchanged. The longest recorded conversation has 414 KB of results, and a context of a
// million tokens has no room for as many as the limit.
const maxText = 8 << 20

// Unread reports whether a message block comes after more tool results than are read. The answer is
// the same in every later request.
func (h *History) Unread(i int) bool {
	if len(h.View.Raw) <= maxText {
		return false
	}
	if h.looked == 0 {
		text := 0
		for h.looked = 1; h.looked <= len(h.Blocks); h.looked++ {
			if b := &h.Blocks[h.looked-1]; b.Kind == wire.KindToolResult {
				if text += b.Body.Len(); text > maxText {
					break
				}
			}
		}
	}
	return i >= h.looked-1
}

// Text returns the decoded text of a message block, valid until the arena is closed.
func (h *History) Text(i int) string {
	// Only texts of new blocks are kept: several stages read them.
	if i < h.Known || h.Unread(i) {
		return Decode(h.arena, h.View, &h.Blocks[i], Unwrap)
	}
	if h.Texts == nil {
		h.Texts = make([]string, len(h.Blocks)-h.Known)
	}
	s := &h.Texts[i-h.Known]
	if *s == "" {
		*s = Decode(h.arena, h.View, &h.Blocks[i], Unwrap)
	}
	return *s
}

// Decode opens an arena for decoded texts, to be closed by Release.
func (h *History) Decode() {
	h.arena = arenas.Get().(*Arena)
	h.arena.free = h.arena.all
}

// Release invalidates the decoded texts, and releases their memory.
func (h *History) Release() {
	p := h.arena
	for _, b := range p.more {
		reuse.Recycle(b)
	}
	clear(p.more)
	p.more, p.free = p.more[:0], nil
	arenas.Put(p)
	h.arena, h.Texts = nil, nil
}

// Arena is reusable memory for the decoded texts of one request. A text must not outlive the
// decision about its request. A nil arena allocates each text separately.
type Arena struct {
	all  []byte
	free []byte   // the free rest of all, or of the last element of more
	more [][]byte // additional memory for the texts of a new conversation, from the pool of bodies
}

// arenaSize is the memory of an arena in bytes, and arenaStep the minimum of each extension.
const (
	arenaSize = 64 << 10
	arenaStep = 256 << 10
)

var arenas = sync.Pool{New: func() any { return &Arena{all: make([]byte, arenaSize)} }}

// take returns n bytes to write to.
func (p *Arena) take(n int) []byte {
	if p == nil {
		return make([]byte, n)
	}
	if n > len(p.free) {
		b := reuse.Buffer(max(n, arenaStep))
		p.more, p.free = append(p.more, b), b[:cap(b)]
	}
	out := p.free[:n:n]
	p.free = p.free[n:]
	return out
}

// Sent is the number of bytes of a whole block as sent.
func (h *History) Sent(i int) int {
	if h.Removed(i) {
		return 0
	}
	return h.Blocks[i].Span.Len() - h.Blocks[i].Body.Len() + h.Size(i)
}

// Zeroed returns n zero values, in the memory of s if it is large enough.
func Zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4+16)
	}
	s = s[:n]
	clear(s)
	return s
}

// Removed reports whether a block is not sent at all.
func (h *History) Removed(i int) bool {
	e := h.States[i].Edit
	return e != nil && e.Op == wire.OpRemove
}

// Message returns the range of blocks of a block's message.
func (h *History) Message(i int) (first, end int) {
	m := &h.View.Messages[h.Blocks[i].Message]
	return int(m.First) - h.View.System, int(m.End) - h.View.System
}

// Alone reports whether the message would be empty without the block.
func (h *History) Alone(i int) bool {
	first, end := h.Message(i)
	for j := first; j < end; j++ {
		if j != i && !h.Removed(j) {
			return false
		}
	}
	return true
}

// Size is the number of bytes of a block's body as sent.
func (h *History) Size(i int) int {
	switch e := h.States[i].Edit; {
	case e == nil:
		return h.Blocks[i].Body.Len()
	case e.Op == wire.OpRemove:
		return 0
	default:
		return len(e.Value)
	}
}

// LastSaid returns the last block of the model, 0 if there is none.
func (h *History) LastSaid() int {
	for i := len(h.Blocks) - 1; i >= 0; i-- {
		if h.Blocks[i].Role == wire.RoleAssistant {
			return i
		}
	}
	return 0
}

// LastAnswer returns the first block of the last assistant message.
func (h *History) LastAnswer() int {
	for i := len(h.View.Messages) - 1; i >= 0; i-- {
		if m := &h.View.Messages[i]; m.Role == wire.RoleAssistant {
			return int(m.First) - h.View.System
		}
	}
	return 0
}

// MaxAlike limits the similar blocks to compare with one block.
const MaxAlike = 64

// earlier indexes the blocks by their content and by their file. It stays empty for few new blocks:
// a search for each is faster.
type earlier struct {
	known    int // number of indexed blocks
	contents map[uint64][]int32
	files    map[uint64][]int32
	slab     []int32 // memory for the first element of each list; most lists have one
}

// add appends the next block to a list.
func (e *earlier) add(list []int32) []int32 {
	if list == nil && len(e.slab) > 0 {
		list, e.slab = e.slab[:0:1], e.slab[1:]
	}
	return append(list, int32(e.known))
}

// learned indexes the blocks before i, and reports whether the index is in use.
func (h *History) learned(i int) bool {
	e := &h.earlier
	if len(h.Blocks)-h.Known <= FewBlocks {
		return false
	}
	if e.contents == nil {
		n := len(h.Blocks) / 4
		e.contents, e.files, e.slab = make(map[uint64][]int32, n), make(map[uint64][]int32, n), make([]int32, 2*n)
	}
	for ; e.known < i; e.known++ {
		s := &h.States[e.known]
		if s.Content != 0 {
			if c := e.contents[s.Content]; len(c) <= MaxAlike {
				e.contents[s.Content] = e.add(c)
			}
		}
		if s.Path != 0 {
			e.files[s.Path] = e.add(e.files[s.Path])
		}
	}
	return true
}

// Alike yields the blocks before i with a content, the earliest first.
func (h *History) Alike(i int, content uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		if h.learned(i) {
			for _, j := range h.earlier.contents[content] {
				if !yield(int(j)) {
					return
				}
			}
			return
		}
		for j := range i {
			if h.States[j].Content == content && !yield(j) {
				return
			}
		}
	}
}

// About yields the blocks before i about a file, the latest first.
func (h *History) About(i int, file uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		if h.learned(i) {
			all := h.earlier.files[file]
			for n := len(all) - 1; n >= 0; n-- {
				if !yield(int(all[n])) {
					return
				}
			}
			return
		}
		for j := i - 1; j >= 0; j-- {
			if h.States[j].Path == file && !yield(j) {
				return
			}
		}
	}
}

// ServesTools reports whether the tools look like a coding agent's.
func ServesTools(v *wire.View) bool {
	for i := range Definitions(v) {
		b := &v.Blocks[i]
		if works(v.Text(b.Name)) {
			return true
		}
		if b.Section != wire.SectionMessages {
			continue
		}
		found := false
		gjson.GetBytes(v.Bytes(b.Span), "tools").ForEach(func(_, tool gjson.Result) bool { // a namespace
			found = works(tool.Get("name").Str)
			return !found
		})
		if found {
			return true
		}
	}
	return false
}

func works(tool string) bool {
	switch ClassOf(tool) {
	case sessioncache.ClassRead, sessioncache.ClassCommand, sessioncache.ClassEdit:
		return true
	}
	return false
}

// Definitions yields the blocks of the tool definitions, by their indices.
func Definitions(v *wire.View) iter.Seq[int] {
	return func(yield func(int) bool) {
		first, end := toolRange(v)
		for i := first; i < end; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

func toolRange(v *wire.View) (first, end int) {
	// Some clients of the Responses API have no list of tools, but definitions in a first message.
	if v.Tools > 0 || !v.Traits().FlatItems {
		return 0, v.Tools
	}
	for i := range v.Messages {
		m := &v.Messages[i]
		// Definitions come before all responses.
		if m.Role == wire.RoleAssistant {
			break
		}
		if m.First < m.End && v.Blocks[m.First].Kind == wire.KindToolDef {
			return int(m.First), int(m.End)
		}
	}
	return 0, 0
}

// OfferedTool returns the number of tools in a definition: one, or with flat the tools of a
// namespace of the Responses API.
func OfferedTool(v *wire.View, i int, flat bool) int {
	if flat && v.Traits().FlatItems {
		if n := gjson.GetBytes(v.Bytes(v.Blocks[i].Span), "tools.#").Int(); n > 0 {
			return int(n)
		}
	}
	return 1
}

// LastDefinition returns the block of the last tool that another definition can follow, -1 if there
// is none.
func LastDefinition(v *wire.View) int {
	first, end := toolRange(v)
	for i := end - 1; i >= first; i-- {
		// In some formats, tools run by the provider are not part of the list.
		if !v.Traits().HostedUnlisted || !v.Blocks[i].Name.Empty() {
			return i
		}
	}
	return -1
}

// Compacts reports whether the request asks for a summary of the conversation, to continue in a new
// one.
func Compacts(v *wire.View) bool {
	blocks := v.MessageBlocks()
	for i := len(blocks) - 1; i >= 0 && blocks[i].Role == wire.RoleUser; i-- {
		switch b := &blocks[i]; {
		case b.Kind == wire.KindText && asksForSummary(string(v.Bytes(b.Body))):
			return true
		case b.Kind == wire.KindOther && gjson.GetBytes(v.Bytes(b.Span), "type").Str == "compaction_trigger":
			return true
		}
	}
	return false
}

// summons are the beginnings of coding agents' requests for a summary.
var summons = []string{
	"CRITICAL: Respond with TEXT ONLY", "You are performing a CONTEXT CHECKPOINT COMPACTION",
	"Your task is to create a detailed summary of the conversation",
	"First, reason in your scratchpad. Then, generate the <state_snapshot>",
}

func asksForSummary(body string) bool {
	for _, s := range summons {
		if strings.Contains(body[:min(len(body), 400)], s) {
			return true
		}
	}
	return false
}

// Zones are the limits of the middle of a conversation, in messages: messages before Begin are
// frozen, messages from End on are hot.
type Zones struct{ Begin, End int }

// NewZones finds the middle between the frozen first turns and the hot last turns. Conversations of
// fewer than least messages have none.
func NewZones(v *wire.View, frozen, hot, minMessages int) Zones {
	if len(v.Messages) < minMessages {
		return Zones{}
	}
	z := Zones{Begin: len(v.Messages), End: len(v.Messages)}
	n := 0 // turns
	for i := 0; i < len(v.Messages) && n <= frozen; i++ {
		if turns(v, i) {
			z.Begin = i
			n++
		}
	}
	for i := len(v.Messages) - 1; i >= 0 && hot > 0; i-- {
		if turns(v, i) {
			z.End = i
			hot--
		}
	}
	if n <= frozen || z.End <= z.Begin {
		return Zones{}
	}
	return z
}

// turns reports whether a turn begins with message i.
func turns(v *wire.View, i int) bool {
	return v.Messages[i].Role == wire.RoleAssistant && (i == 0 || v.Messages[i-1].Role != wire.RoleAssistant)
}

// Middle reports whether a block is between the frozen head and the hot tail.
func (z Zones) Middle(b *wire.Block) bool {
	return int(b.Message) >= z.Begin && int(b.Message) < z.End
}

// AnswersTool reports whether a message answers a call. Such a message begins no task.
func AnswersTool(v *wire.View, m *wire.Message) bool {
	for i := m.First; i < m.End; i++ {
		switch v.Blocks[i].Kind {
		case wire.KindToolResult, wire.KindServerTool, wire.KindProgram:
			return true
		}
	}
	return false
}

// LongMarker reports whether the client asks for the long cache lifetime.
func LongMarker(v *wire.View) bool {
	for i := range v.Marked() {
		if IsLong(v.Bytes(v.Blocks[i].Marker)) {
			return true
		}
	}
	return IsLong(v.Bytes(v.Caching.AutoMarker))
}

// IsLong reports whether a cache marker asks for the long lifetime.
func IsLong(marker []byte) bool { return bytes.Contains(marker, []byte(`"1h"`)) }
