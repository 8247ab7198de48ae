// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
)

// TestModels: a user's own models go before those of the groups, and these before those of everybody.
func TestModels(t *testing.T) {
	a := &App{
		Users: []User{{Name: "anna", Models: []string{"own-*"}}, {Name: "anna", Models: []string{"more"}}, {
			Name:   "*",
			Models: []string{"vendor/small-*"},
		}},
		Groups: []Group{{Name: "web", Models: []string{"a", "b"}}, {Name: "night", Models: []string{"c"}}, {Name: "free"}},
	}
	d, err := a.directory(new(usersFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who  tenant.User
		want []string
	}{
		{tenant.User{Name: "anna", Groups: []string{"web"}}, []string{"own-*", "more"}},
		{tenant.User{Name: "ben", Groups: []string{"web", "night"}}, []string{"a", "b", "c"}},
		{tenant.User{Name: "ben", Groups: []string{"free"}}, []string{"vendor/small-*"}},
		{tenant.User{Name: "stranger"}, []string{"vendor/small-*"}},
	} {
		if got := d.Models(&c.who); !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q, want %q", c.who, got, c.want)
		}
	}
}

// TestUsersFile: a file of users is read again when it changes, and one with a mistake changes nothing and
// is logged once, with its line.
func TestUsersFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "users.caddyfile")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * usersPoll)
			synctest.Wait()
		}
		if err := os.WriteFile(file, []byte("# users\nuser anna sk-anna\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		core, logs := observer.New(zap.InfoLevel)
		a := &App{
			instance: shared.Process, usersPath: file, users: new(atomic.Pointer[Directory]), logger: zap.New(core),
			audit: new(AuditSQLite), Users: []User{{Name: "carla", Keys: []string{"sk-carla"}}},
		}
		if err := a.loadUsers(); err != nil {
			t.Fatal(err)
		}
		a.watchUsers(t.Context())
		groups := func(user string) string { return strings.Join(a.users.Load().Users.Groups(user), " ") }
		write("user anna sk-anna {\n\tgroup web\n\tbudget $5 day\n}\ngroup web {\n\tbudget $20 week\n}\n")
		web := allowance.Account{Kind: allowance.Group, Name: "web"}
		if groups("anna") != "web" || len(a.users.Load().Budgets.For(web)) != 1 {
			t.Errorf("the file is not read again: %q, %v", groups("anna"), logs.All())
		}
		for _, broken := range []struct{ text, says string }{
			{"user anna sk-anna\n\nuser ben sk-secret {\n\tgroups web\n}\n", "users.caddyfile:4"},
			{"sk-secret anna\n", "users.caddyfile:1"},
			{"user ben sk-carla\n", "known by the same key"},
			{"user anna {\n", "users_file"},
		} {
			logs.TakeAll()
			write(broken.text)
			all := logs.TakeAll()
			if len(all) != 1 || groups("anna") != "web" {
				t.Fatalf("%q: %d log entries, groups %q", broken.text, len(all), groups("anna"))
			}
			if told, _ := all[0].ContextMap()["error"].(string); !strings.Contains(told, broken.says) ||
				strings.Contains(told, "sk-") {
				t.Errorf("%q: the log says %q", broken.text, told)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * usersPoll)
		if all := logs.TakeAll(); len(all) != 1 || groups("anna") != "web" {
			t.Errorf("a file that is gone: %v, groups %q", all, groups("anna"))
		}
		write("user anna sk-anna {\n\tgroup night\n}\n")
		if groups("anna") != "night" {
			t.Errorf("a mended file is not read: %v", logs.All())
		}
		if write(""); groups("anna") != "" {
			t.Error("an empty file has users")
		}
		write("user anna sk-anna {\n\tgroup night\n}\n")
		a.audit = nil
		logs.TakeAll()
		write("user anna sk-anna {\n\tbudget $5 day\n}\n")
		if all := logs.TakeAll(); len(all) != 1 || groups("anna") != "night" {
			t.Errorf("budgets without an audit store: %v", all)
		}
	})
}

// TestMembers: a group may name its users, besides those that name the group, also users whom something
// else authenticates.
func TestMembers(t *testing.T) {
	a := App{
		Users: []User{{Name: "anna", Keys: []string{"k"}, Groups: []string{"night"}}},
		Groups: []Group{
			{Name: "web", Members: []string{"anna", "ben"}},
			{Name: "night", Members: []string{"anna"}},
		},
	}
	d, err := a.directory(new(usersFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"anna": {"night", "web"}, "ben": {"web"}, "cem": nil} {
		if got := d.Users.Groups(name); !slices.Equal(got, want) {
			t.Errorf("got the groups %v of %s, want %v", got, name, want)
		}
	}
	for _, g := range []Group{{Name: "*", Members: []string{"anna"}}, {Name: "web", Members: []string{"{x}"}}} {
		if err := g.Validate(); err == nil {
			t.Errorf("got no error for %+v", g)
		}
	}
}
