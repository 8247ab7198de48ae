// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// A packed session has all that would outlive the process, and its edits as they are,
// whether or not they could be made again.
func TestPack(t *testing.T) {
	s, v := rich(t)
	s.Lock()
	l := s.conversations[0]
	edit, inserted := l.States[2].Edit, l.States[2].Inserted
	// of nothing that the client has sent
	l.States[0].Edit = &Edit{Stage: "overlay", Op: wire.OpReplace, Value: []byte(secretText)}
	s.Unlock()
	before := snapshotOf(s)

	s.Lock()
	unpacked := s.size()
	s.pack()
	if s.size() >= unpacked || s.conversations[0].States != nil || s.conversations[0].known != nil {
		t.Errorf("packed, it takes %d bytes of %d", s.size(), unpacked)
	}
	s.Unlock()

	if after := snapshotOf(s); !bytes.Equal(before, after) {
		t.Errorf("packed, it was\n%x\nand is\n%x", before, after)
	}
	s.Lock()
	defer s.Unlock()
	m := s.Match(v)
	if m.Conversation != l || m.Common != 3 || !l.Restored() || len(l.Said) != 1 {
		t.Errorf("the conversation does not go on: %+v", m)
	}
	if st := l.States; st[2].Edit != edit || st[2].Inserted != inserted || st[0].Edit == nil ||
		string(st[0].Edit.Value) != secretText {
		t.Error("edits and insertions are not what they were")
	}
	if s.packed.Load() != nil {
		t.Error("it is packed while it is locked")
	}
}

// A packed session keeps long values by recipes only, also where no snapshots are taken.
func TestPackedValues(t *testing.T) {
	m := open(t, Options{})
	defer m.Close()
	var padded, bare strings.Builder
	for i := 1; i < 100; i++ {
		fmt.Fprintf(&padded, `%6d\tline %d of the file\n`, i, i)
		fmt.Fprintf(&bare, `%d\tline %d of the file\n`, i, i)
	}
	v := view(t, user1+`,{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Read","input":{}}]},{"role":"user",`+
		`"content":[{"type":"tool_result","tool_use_id":"t1","content":"`+padded.String()+`"}]}`, nil)
	for i, value := range []string{
		`"` + bare.String() + `"`, // without padding
		`"` + bare.String()[:2000] + `[llm_cache: 20 lines left out]\n"`,
		`"` + strings.Repeat("of another origin ", 1000) + `"`, // stays
		`"[a short note]"`,
	} {
		s := m.Acquire(t.Context(), Key{ID: fmt.Sprint(i)})
		states := NewBlockStates(len(v.MessageBlocks()))
		states[2].Edit = &Edit{Stage: "admission", Op: wire.OpReplace, Value: []byte(value)}
		s.Lock()
		l := s.Commit(Match{}, v, states)
		s.pack()
		if size := s.size(); size > 2000 && !strings.Contains(value, "origin") {
			t.Errorf("value %d: got %d bytes, want at most 2000", i, size)
		}
		s.Unlock()
		s.Lock()
		if x := s.Match(v); x.Conversation != l || x.Common != 3 {
			t.Errorf("it does not go on: %+v", x)
		}
		if e := l.States[2].Edit; e == nil || string(e.Value) != value || e.Stage != "admission" || e.Op != wire.OpReplace {
			t.Errorf("%q is now %+v", value, e)
		}
		s.Unlock()
		m.Release(s)
	}
}

// Idle sessions are packed, and sessions in use never are. Packed sessions take less memory, and
// still work.
func TestUnusedSessionsArePacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, Options{})
		defer m.Close()
		rests, used := made(t, m, 1, "rests"), made(t, m, 1, "used")
		m.Acquire(t.Context(), Key{Tenant: Tenant{1}, ID: "used"})
		full := m.Stats().Bytes
		time.Sleep(quiet - time.Second)
		if rests.packed.Load() != nil {
			t.Error("packed before its time")
		}
		time.Sleep(quiet)
		synctest.Wait()
		if rests.packed.Load() == nil || used.packed.Load() != nil {
			t.Errorf("packed: %t, while in use: %t", rests.packed.Load() != nil, used.packed.Load() != nil)
		}
		if m.Stats().Bytes >= full {
			t.Errorf("they took %d bytes, and take %d", full, m.Stats().Bytes)
		}

		first := view(t, user1, nil).First()
		if m.Recall(Tenant{1}, first) == nil { // the newer one's, which is not packed
			t.Error("nothing is recalled")
		}
		if s := m.Acquire(t.Context(), Key{Tenant: Tenant{1}, ID: "rests"}); s != rests {
			t.Fatal("it is another session")
		}
		l := rests.conversations[0]
		if commit(rests, view(t, user1+answer1+user2, m.recall(1))) != l || l.Requests != 2 || l.Restored() {
			t.Error("the conversation does not go on")
		}
		m.Release(rests)
		m.Release(used)
		if m.Stats().Bytes <= full {
			t.Error("what was unpacked is not accounted for")
		}
		time.Sleep(2 * quiet)
		synctest.Wait()
		if rests.packed.Load() == nil || used.packed.Load() == nil {
			t.Error("they are not packed again")
		}
	})
}

// recall returns the Recall of one tenant.
func (m *Store) recall(tenant byte) func(wire.Hash) *wire.Known {
	return func(h wire.Hash) *wire.Known { return m.Recall(Tenant{tenant}, h) }
}

// The live page and the admin API ask for many sessions every few seconds: to look at them
// leaves them as they are.
func TestLookLeavesSessionsPacked(t *testing.T) {
	s, v := rich(t)
	full := s.Report(time.Now())
	at, _ := s.Used()
	s.Lock()
	s.pack()
	s.Unlock()
	look := s.Report(time.Now())
	if used, _ := s.Used(); s.packed.Load() == nil || !used.Equal(at) {
		t.Errorf("packed: %t, used at %s, not at %s", s.packed.Load() != nil, used, at)
	}
	if look.Bytes >= full.Bytes || len(look.Conversations) != 2 || look.Conversations[0].Ledger["prune"] != 1 ||
		look.Conversations[0].Blocks != full.Conversations[0].Blocks {
		t.Errorf("%+v is told, and unpacked %+v", look, full)
	}
	s.Lock()
	defer s.Unlock()
	if m := s.Match(v); m.Common != 3 || m.Conversation.States[2].Edit == nil {
		t.Errorf("the conversation does not go on: %+v", m)
	}
}

// A panic while packing costs only the session itself.
func TestPackPanics(t *testing.T) {
	m := open(t, Options{})
	defer m.Close()
	bad, good := made(t, m, 1, "bad"), made(t, m, 1, "good")
	bad.conversations = append(bad.conversations, nil)
	for _, s := range []*Session{bad, good} {
		m.pack(s, time.Now().Add(quiet))
	}
	if !bad.Gone() || good.Gone() || good.packed.Load() == nil || m.Stats().Sessions != 1 {
		t.Errorf("gone: %t and %t, %d sessions", bad.Gone(), good.Gone(), m.Stats().Sessions)
	}
	if !bad.mu.TryLock() {
		t.Error("it is locked for ever")
	}
}

// Packing meets requests at any moment, and takes nothing from them.
func TestPackMeetsRequests(t *testing.T) {
	m := open(t, Options{})
	defer m.Close()
	done := make(chan struct{})
	var packer sync.WaitGroup
	packer.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			for _, s := range m.Page(Newest, 8) {
				m.pack(s, time.Now().Add(quiet))
			}
		}
	})
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			k := Key{Tenant: Tenant{byte(i)}, ID: fmt.Sprint(i)}
			messages := user1
			for turn := range 60 {
				s := m.Acquire(t.Context(), k)
				v := view(t, messages, m.recall(byte(i)))
				v.Known().Pin()
				l := commit(s, v)
				s.Lock()
				s.Leave(l, v)
				if l.Requests != turn+1 || l.Len() != len(v.MessageBlocks()) || len(s.conversations) != 1 {
					t.Errorf("turn %d: %d requests of %d blocks in %d conversations", turn, l.Requests, l.Len(), len(s.conversations))
				}
				s.Unlock()
				v.Known().Unpin()
				m.Release(s)
				messages += answer1 + user2
				if turn%4 > 0 {
					continue
				}
				m.pack(s, time.Now().Add(quiet)) // whether or not the other is as fast
				if s.packed.Load() == nil {
					t.Errorf("turn %d: it is not packed", turn)
				}
			}
		})
	}
	clients.Wait()
	close(done)
	packer.Wait()
}

func hundredTurns(result string) string {
	messages := user1
	for i := range 100 {
		messages += fmt.Sprintf(`,{"role":"assistant","content":[{"type":"text","text":"Let me look."},{"type":"tool_use",`+
			`"id":"t%d","name":"Read","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d",`+
			`"content":"%s%d"}]}`, i, i, result, i)
	}
	return messages
}

// An idle session of a hundred turns takes at most 16 KiB, all index entries included, also where every result is
// shortened.
func TestPackedSize(t *testing.T) {
	m := open(t, Options{})
	defer m.Close()
	const padded, bare = `     1\tpackage a\n     2\t\n     3\tfunc f(n int) int { return 2*n }\n     4\t`,
		`1\tpackage a\n2\t\n3\tfunc f(n int) int { return 2*n }\n4\t`
	v := view(t, hundredTurns(strings.Repeat(padded, 5)), nil)
	states := NewBlockStates(len(v.MessageBlocks()))
	for i := range 100 {
		states[3*i].Content = uint64(i)
		states[3*i+3].Edit = &Edit{
			Stage: "admission", Op: wire.OpReplace, Value: fmt.Appendf(nil, `"%s%d"`, strings.Repeat(bare, 5), i),
		}
	}
	s := m.Acquire(t.Context(), Key{ID: "s"})
	s.Lock()
	l := s.Commit(Match{}, v, states)
	for i := range 100 {
		l.Ends.Mark(3*i, time.Now())
	}
	before := s.size()
	least := uint64(math.MaxUint64) // allocated, in bytes: the pool of buffers is empty at first
	for range 20 {
		least = min(least, allocated(s.pack))
		s.unpack()
	}
	s.pack()
	after := s.size()
	s.Unlock()
	t.Logf("%d bytes, packed %d", before, after)
	if after > 16<<10 {
		t.Errorf("got %d bytes, want at most 16 KiB", after)
	}
	// Garbage between the packed bytes of many sessions would take as much memory as they do.
	if least > uint64(after)*5/4 {
		t.Errorf("packing allocates %d bytes, want at most a quarter more than the %d that stay", least, after)
	}
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func BenchmarkPack(b *testing.B) {
	m := open(b, Options{})
	defer m.Close()
	s := m.Acquire(b.Context(), Key{ID: "s"})
	commit(s, view(b, hundredTurns("text "), nil))
	b.ReportAllocs()
	for b.Loop() {
		s.mu.Lock()
		s.pack()
		s.unpack()
		s.Unlock()
	}
}
