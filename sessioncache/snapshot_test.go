// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
)

var update = flag.Bool("update", false, "write the snapshot in testdata anew")

const secretText = "the client's own words, which nobody is to find anywhere"

// rich is a session with something of everything.
func rich(t testing.TB) (*Session, *wire.View) {
	t.Helper()
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.outlives = true
	s := m.Acquire(t.Context(), Key{Tenant: Tenant{7}, Upstream: "anthropic api.example", ID: "one"})
	s.created = time.Unix(1_790_000_000, 5)
	s.Unseen = 3 * time.Hour
	text := strings.Repeat(secretText+" ", 20)
	body := `{"model":"m","system":[{"type":"text","text":"Be helpful."}],"tools":[{"name":"Read"}],"messages":[` +
		`{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Read",` +
		`"input":{"file_path":"/a"}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"` + text + `"}]}]}`
	v, err := wire.Parse(wire.Anthropic, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Lock()
	defer s.Unlock()
	states := NewBlockStates(3)
	states[1].Unused, states[2].Unused = 1, 300
	states[2] = BlockState{
		Edit: &Edit{
			Stage: "prune", Op: wire.OpReplace,
			Value: []byte(`"[[llm_cache:folded 1f3a9c27: Read /a]]\n` + text[:100] + `"`),
		},
		Content: 42, Pinned: true, Relies: true,
		Inserted: &Inserted{Inserts: []Insert{{
			Op:    wire.OpAfter,
			Value: []byte(`{"type":"text","text":"` + text[:200] + `"}`),
		}}},
	}
	l := s.Commit(Match{}, v, states)
	l.Model, l.Kind, l.Requests, l.Refused, l.Diverged, l.Expand = "m", 1<<16|1, 9, wire.AllEdits, true, true
	l.Created, l.Started, l.Warmed = s.created, s.created.Add(time.Minute), s.created.Add(2*time.Minute)
	l.TTL, l.Pauses, l.Kept = time.Hour, 2, 1.5
	l.Ends.Mark(2, l.Started)
	l.Ends.Mark(3, l.Warmed)
	l.Last = wire.Usage{Uncached: 1, Write5m: 2, Write1h: 3, Read: 4, Output: 5, Reported: true}
	l.Total, l.Estimate, l.OriginalTokens, l.SentTokens, l.Spent, l.PromptPrefix = l.Last.Add(l.Last), 6, 7, 8, 9.5, 1<<63+
		1
	l.Cost.Add(1, 2, 3, 4)
	l.Cleared = wire.Cleared{ToolUses: 8, Thinking: 3, Tokens: 65000, ThinkingTokens: 15000}
	l.Decision, l.Settled, l.Staked, l.Removed, l.Caution = "why", 2, 3.5, 4.5, 2
	l.Broke("model")
	l.Broke("expired")
	l.Reply, l.First = wire.AnswerID("msg_2"), wire.AnswerID("msg_1")
	l.Said = []intercept.Iteration{{Parts: []intercept.Part{{Raw: []byte(`"` + secretText + `"`)}}}}
	l.Expanded[ClassRead] = 3
	branch := &Conversation{id: s.next}
	branch.inherit(l)
	s.next, s.conversations = s.next+1, append(s.conversations, branch)
	branch.known, branch.States = v.Known(), states[:2]
	branch.Partial, branch.Observed, branch.Beyond, branch.Less = true, true, true, 11
	s.Lifetime = LifetimeLong
	var grown Sizes
	grown[wire.KindText] += 4000
	s.Calibration.Learn(&grown, 2000)
	s.Counterfactual.Put(CounterfactualEntry{Prefix: 1 << 60, Blocks: 3, Tokens: 99, At: l.Started, TTL: time.Hour})
	return s, v
}

func snapshotOf(s *Session) []byte {
	s.Lock()
	defer s.Unlock()
	return s.Snapshot(nil)
}

func TestSnapshot(t *testing.T) {
	s, v := rich(t)
	first := snapshotOf(s)
	if bytes.Contains(first, []byte("own words")) {
		t.Error("a snapshot holds what the client wrote")
	}
	again, err := Restore(s.digest, first)
	if err != nil {
		t.Fatal(err)
	}
	if second := snapshotOf(again); !bytes.Equal(first, second) {
		t.Errorf("a snapshot of what was restored is another:\n%x\n%x", first, second)
	}
	if again.ID() != s.ID() || again.MAC([]byte("x")) != s.MAC([]byte("x")) {
		t.Error("it is another session")
	}
	again.Lock()
	defer again.Unlock()
	m := again.Match(v)
	l := m.Conversation
	if l == nil || m.Common != 3 || !l.Restored() || !l.Unsaid || l.Said != nil || l.Refused != wire.AllEdits ||
		l.Observed {
		t.Fatalf("%+v", m)
	}
	was := s.conversations[0]
	for i := range was.States {
		a, b := &was.States[i], &l.States[i]
		if (a.Edit == nil) != (b.Edit == nil) || a.Edit != nil &&
			(string(a.Edit.Value) != string(b.Edit.Value) || a.Edit.Stage != b.Edit.Stage || a.Edit.Op != b.Edit.Op) {
			t.Errorf("block %d: edit %v, not %v", i, b.Edit, a.Edit)
		}
		if (a.Inserted == nil) != (b.Inserted == nil) || a.Inserted != nil &&
			string(a.Inserted.Inserts[0].Value) != string(b.Inserted.Inserts[0].Value) {
			t.Errorf("block %d: %v is put in, not %v", i, b.Inserted, a.Inserted)
		}
		if a.Unused != b.Unused || a.Pinned != b.Pinned || a.Relies != b.Relies || a.Content != b.Content {
			t.Errorf("block %d: %+v, not %+v", i, b, a)
		}
	}
	if !l.Started.Equal(was.Started) || l.Spending != was.Spending || l.Folding != was.Folding || l.Breaks["model"] != 1 ||
		l.Break != "expired" {
		t.Errorf("%+v, not %+v", l, was)
	}
	if again.Calibration != s.Calibration || again.Unseen != s.Unseen || again.Lifetime != s.Lifetime {
		t.Error("the session is another")
	}
	again.Commit(m, v, NewBlockStates(3))
	if l.Restored() {
		t.Error("it is restored for ever")
	}
}

// A snapshot has the tools in the order in which they were sent, also where two conversations share them.
func TestSnapshotToolOrder(t *testing.T) {
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := m.Acquire(t.Context(), Key{ID: "one"})
	defer m.Release(s)
	s.Lock()
	defer s.Unlock()
	var sent []wire.Hash // by the first request
	for _, tools := range []string{`{"name":"a"},{"name":"b"}`, `{"name":"b"},{"name":"a"}`} {
		v, err := wire.Parse(wire.Anthropic, []byte(`{"tools":[`+tools+`],"messages":[{"role":"user","content":"go"}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		l := s.Commit(Match{}, v, NewBlockStates(1))
		if sent == nil {
			sent = []wire.Hash{v.Blocks[0].Hash, v.Blocks[1].Hash}
		} else {
			l.Order = sent
		}
	}
	again, err := Restore(s.digest, s.Snapshot(nil))
	if err != nil {
		t.Fatal(err)
	}
	s.pack()
	s.unpack()
	for name, conversations := range map[string][]*Conversation{"restored": again.conversations, "unpacked": s.conversations} {
		for i, l := range conversations {
			tools, _ := l.Known().Prefix()
			if got := []wire.Hash{tools[0].Hash, tools[1].Hash}; l.Order != nil || !slices.Equal(got, sent) {
				t.Errorf("%s, conversation %d: got %v, order %v, want %v", name, i, got, l.Order, sent)
			}
		}
	}
}

// Users have snapshots in the present format: another format needs another number.
func TestSnapshotForm(t *testing.T) {
	path := filepath.Join("testdata", "snapshot")
	s, _ := rich(t)
	if *update {
		if err := os.WriteFile(path, snapshotOf(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Restore(s.digest, kept)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := snapshotOf(again), snapshotOf(s); !bytes.Equal(got, want) {
		t.Errorf("%s is read as another session: got %x, want %x", path, got, want)
	}
}

func TestSnapshotsThatAreNotRead(t *testing.T) {
	s, _ := rich(t)
	good := snapshotOf(s)
	newer := bytes.Clone(good)
	newer[0]++
	if _, err := Restore(Digest{}, newer); !errors.Is(err, ErrNewer) {
		t.Errorf("one of a newer program: %v", err)
	}
	for n := range good {
		if _, err := Restore(Digest{}, good[:n]); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	for _, more := range [][]byte{{0}, {1}, {1, 2, 3}, {1, 1, 7, 0, 0}} {
		if _, err := Restore(Digest{}, append(bytes.Clone(good), more...)); !errors.Is(err, ErrSnapshot) {
			t.Errorf("with %v at the end: got %v, want %v", more, err, ErrSnapshot)
		}
	}
}

// TestSnapshotsOfLaterMinorVersions: unknown fields at the end are skipped, and the rest is read.
func TestSnapshotsOfLaterMinorVersions(t *testing.T) {
	s, _ := rich(t)
	own := snapshotOf(s)
	w := PackedWriter{Out: bytes.Clone(own)}
	w.Uint(1)
	w.Bytes([]byte("a field of 0.2"))
	w.Uint(300)
	w.Bytes(nil)
	again, err := Restore(s.digest, w.Out)
	if err != nil {
		t.Fatal(err)
	}
	if got := snapshotOf(again); !bytes.Equal(got, own) {
		t.Errorf("it is read as another session: got %x, want %x", got, own)
	}
}

// FuzzRestore: any snapshot is read or rejected, and a restored session can be used and written
// again.
func FuzzRestore(f *testing.F) {
	s, v := rich(f)
	f.Add(snapshotOf(s))
	for form := range byte(snapshotForm + 1) {
		f.Add([]byte{form})
	}
	f.Fuzz(func(t *testing.T, snapshot []byte) {
		s, err := Restore(Digest{1}, snapshot)
		if err != nil {
			return
		}
		s.runs = new(Runs)
		again, err := Restore(Digest{1}, snapshotOf(s))
		if err != nil {
			t.Fatalf("what was read is not read again: %v", err)
		}
		if a, b := snapshotOf(s), snapshotOf(again); !bytes.Equal(a, b) {
			t.Fatalf("read again it is another:\n%x\n%x", a, b)
		}
		s.Report(time.Now())
		s.Lock()
		defer s.Unlock()
		m := s.Match(v)
		s.Commit(m, v, NewBlockStates(len(v.MessageBlocks())))
	})
}

// Which kinds of edits were refused outlives the process. The overlay remembers that of its
// own kind itself.
func TestRefusedKindsInSnapshots(t *testing.T) {
	for _, k := range []wire.EditKinds{
		0, wire.EditTools, wire.EditMarkers, wire.EditText,
		wire.EditTools | wire.EditMarkers, wire.AllEdits,
	} {
		s, v := rich(t)
		s.Lock()
		s.Match(v).Conversation.Refused = k
		s.Unlock()
		again, err := Restore(s.digest, snapshotOf(s))
		if err != nil {
			t.Fatal(err)
		}
		again.Lock()
		if got := again.Match(v).Conversation.Refused; got != k {
			t.Errorf("got %v, want %v", got, k)
		}
		again.Unlock()
	}
}
