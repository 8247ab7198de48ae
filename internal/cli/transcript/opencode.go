// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	_ "modernc.org/sqlite" // the driver
)

// opencode keeps sessions, messages and their parts as rows of a database in newer
// versions, and as a file each in older ones:
//
//	storage/session/<project>/<session>.json
//	storage/message/<session>/<message>.json
//	storage/part/<message>/<part>.json
//
// `opencode export` writes a session as one object with all messages and their parts.

func isOpencode(path string) bool {
	if filepath.Base(path) == "opencode.db" {
		return true
	}
	dir := filepath.Dir(filepath.Dir(path))
	return filepath.Base(dir) == "session" && filepath.Base(filepath.Dir(dir)) == "storage" &&
		filepath.Ext(path) == ".json"
}

func openOpencode(path string) (*sql.DB, error) {
	u := url.URL{
		Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path),
		RawQuery: "mode=ro&_pragma=busy_timeout(2000)",
	}
	return sql.Open("sqlite", u.String())
}

func listOpencode(path string) ([]Source, error) {
	if !isOpencode(path) { // an export
		return listOpencodeExport(path)
	}
	if filepath.Ext(path) == ".json" {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		id := strings.TrimSuffix(filepath.Base(path), ".json")
		return []Source{{Agent: "opencode", Path: path, Session: id, Bytes: info.Size() + partsSize(path, id)}}, nil
	}
	db, err := openOpencode(path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.Query("SELECT session_id, sum(length(data)) FROM part GROUP BY session_id")
	if err != nil {
		return nil, fmt.Errorf("transcript %s: %w", path, err)
	}
	defer rows.Close()
	var out []Source
	for rows.Next() {
		s := Source{Agent: "opencode", Path: path}
		if err := rows.Scan(&s.Session, &s.Bytes); err != nil {
			return nil, fmt.Errorf("transcript %s: %w", path, err)
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

func storage(path string) string { return filepath.Dir(filepath.Dir(filepath.Dir(path))) }

func partsSize(path, session string) (n int64) {
	for _, m := range jsonFiles(filepath.Join(storage(path), "message", session)) {
		for _, p := range jsonFiles(filepath.Join(storage(path), "part", strings.TrimSuffix(filepath.Base(m), ".json"))) {
			if info, err := os.Stat(p); err == nil {
				n += info.Size()
			}
		}
	}
	return n
}

// jsonFiles lists a folder in the order of its names, which is chronological.
func jsonFiles(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

type opencodeMessage struct {
	message gjson.Result
	parts   []gjson.Result
}

func readOpencode(s Source) ([]*Session, error) {
	load := opencodeRows
	switch {
	case !isOpencode(s.Path):
		load = opencodeExport
	case filepath.Ext(s.Path) == ".json":
		load = opencodeFiles
	}
	b := newBuilder(s.Session)
	messages, project, err := load(s)
	if err != nil {
		return nil, err
	}
	b.session.Project = project
	for _, m := range messages {
		b.opencode(m)
	}
	return []*Session{b.end(0)}, nil
}

func opencodeFiles(s Source) (out []opencodeMessage, project string, err error) {
	read := func(path string) gjson.Result {
		raw, err := os.ReadFile(path)
		if err != nil || !json.Valid(raw) {
			return gjson.Result{}
		}
		return gjson.ParseBytes(raw)
	}
	project = read(s.Path).Get("directory").String()
	for _, path := range jsonFiles(filepath.Join(storage(s.Path), "message", s.Session)) {
		m := opencodeMessage{message: read(path)}
		for _, part := range jsonFiles(filepath.Join(storage(s.Path), "part",
			strings.TrimSuffix(filepath.Base(path), ".json"))) {
			m.parts = append(m.parts, read(part))
		}
		out = append(out, m)
	}
	return out, project, nil
}

func knowsOpencode(start []byte) bool {
	return gjson.GetBytes(start, "info.id").Exists() && gjson.GetBytes(start, "info.projectID").Exists()
}

func listOpencodeExport(path string) ([]Source, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return []Source{{
		Agent: "opencode", Path: path, Session: gjson.GetBytes(raw, "info.id").String(),
		Bytes: int64(len(raw)),
	}}, nil
}

func opencodeExport(s Source) (out []opencodeMessage, project string, err error) {
	raw, err := os.ReadFile(s.Path)
	if err != nil {
		return nil, "", err
	}
	if !json.Valid(raw) {
		return nil, "", fmt.Errorf("transcript %s: is not JSON", s.Path)
	}
	for _, m := range gjson.GetBytes(raw, "messages").Array() {
		out = append(out, opencodeMessage{message: m.Get("info"), parts: m.Get("parts").Array()})
	}
	return out, gjson.GetBytes(raw, "info.directory").String(), nil
}

func opencodeRows(s Source) (out []opencodeMessage, project string, err error) {
	db, err := openOpencode(s.Path)
	if err != nil {
		return nil, "", err
	}
	defer db.Close()
	if err := db.QueryRow("SELECT directory FROM session WHERE id = ?", s.Session).Scan(&project); err != nil {
		return nil, "", err
	}
	index := map[string]int{}
	err = eachRow(db, "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", s.Session,
		func(id, data string) {
			index[id] = len(out)
			out = append(out, opencodeMessage{message: gjson.Parse(data)})
		})
	if err != nil {
		return nil, "", err
	}
	err = eachRow(db, "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY message_id, id", s.Session,
		func(id, data string) {
			if i, known := index[id]; known {
				out[i].parts = append(out[i].parts, gjson.Parse(data))
			}
		})
	return out, project, err
}

func eachRow(db *sql.DB, query, session string, each func(id, data string)) error {
	rows, err := db.Query(query, session)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, data string
		if err := rows.Scan(&id, &data); err != nil {
			return err
		}
		each(id, data)
	}
	return rows.Err()
}

func (b *builder) opencode(m opencodeMessage) {
	created := millis(m.message.Get("time.created").Int())
	if m.message.Get("role").String() != "assistant" {
		if slices.ContainsFunc(m.parts, func(p gjson.Result) bool { return p.Get("type").String() == "compaction" }) {
			b.part()
		}
		for _, p := range m.parts {
			switch p.Get("type").String() {
			case "text":
				if !p.Get("ignored").Bool() {
					b.user(created, text(p.Get("text").String())...)
				}
			case "file":
				b.user(created, imageBlock())
			case "compaction":
				b.user(created, textBlock("What did we do so far?"))
			}
		}
		return
	}
	if m.message.Get("error").Exists() && len(m.parts) == 0 {
		return
	}
	t := m.message.Get("tokens")
	usage := &Usage{
		Input: t.Get("input").Int(), Output: t.Get("output").Int() + t.Get("reasoning").Int(),
		Read: t.Get("cache.read").Int(), Write: t.Get("cache.write").Int(),
	}
	ended := millis(m.message.Get("time.completed").Int())
	id, model := m.message.Get("id").String()+"/"+m.message.Get("parentID").String()+"/"+created.String(),
		m.message.Get("modelID").String()
	if n := len(b.now); n > 0 { // the time of the answer's creation is that of the request
		b.now[n-1].to = later(b.now[n-1].to, created)
	}
	var results []Block
	for _, p := range m.parts {
		switch p.Get("type").String() {
		case "text":
			b.answer(id, ended, model, usage, text(p.Get("text").String())...)
		case "reasoning":
			b.answer(id, ended, model, usage, thinkingBlock(p.Get("text").String(),
				p.Get("metadata.anthropic.signature").String())...)
		case "tool":
			state := p.Get("state")
			b.answer(id, ended, model, usage, callBlock(p.Get("callID").String(), p.Get("tool").String(),
				state.Get("input").Raw))
			output, failed := state.Get("output").String(), state.Get("status").String() == "error"
			if failed {
				output = state.Get("error").String()
			}
			results = append(results, resultBlock(p.Get("callID").String(), quoted(output), failed))
		}
	}
	b.user(ended, results...)
}
