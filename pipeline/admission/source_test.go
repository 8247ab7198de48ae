// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Codex's tools are classified by their names, their JSON arguments, and the programs and patches
// that its models write.
func TestUnderstandCodex(t *testing.T) {
	patch := "*** Begin Patch\n*** Update File: src/main.go\n@@ func main()\n-old line\n+new line\n*** End Patch\n"
	for _, c := range []struct {
		name     string
		body     any // value of arguments, input or action
		class    sessioncache.Class
		path     string
		argument string
		source   source
	}{
		{
			"exec_command", `{"cmd":"cat src/a.go","workdir":"/x"}`, sessioncache.ClassRead, "src/a.go", "cat src/a.go",
			sourceRead,
		},
		{"exec_command", `{"cmd":"go test ./..."}`, sessioncache.ClassCommand, "", "go test ./...", sourceCommand},
		{
			"shell", `{"command":["bash","-lc","cat src/a.go"]}`, sessioncache.ClassRead, "src/a.go", "cat src/a.go",
			sourceRead,
		},
		{"shell", `{"command":["ls","-la"]}`, sessioncache.ClassSearch, "", "ls -la", sourceCommand},
		{
			"local_shell", json.RawMessage(`{"type":"exec","command":["bash","-lc","go build | tail -3"]}`),
			sessioncache.ClassCommand, "", "go build | tail -3", sourceCommand,
		},
		{"write_stdin", `{"session_id":7,"chars":"q\n"}`, sessioncache.ClassCommand, "", "", sourceCommand},
		{"view_image", `{"path":"a/b.png"}`, sessioncache.ClassRead, "a/b.png", "a/b.png", sourceOther},
		{"apply_patch", patch, sessioncache.ClassEdit, "src/main.go", "src/main.go", sourceOther},
		{
			"apply_patch", `{"input":` + string(content.Quote(patch)) + `}`, sessioncache.ClassEdit, "src/main.go",
			"src/main.go", sourceOther,
		},
		{
			"shell", `{"command":["apply_patch",` + string(content.Quote(patch)) + `]}`, sessioncache.ClassEdit, "src/main.go",
			"src/main.go", sourceCommand,
		},
		{
			"exec", `const r = await tools.exec_command({cmd: "cat \"src/a b.go\""});` + "\ntext(r);", sessioncache.ClassRead,
			"", `cat "src/a b.go"`, sourceRead,
		},
		{
			"exec",
			"const [a, b] = await Promise.all([tools.exec_command({cmd: `go vet ./...`}), tools.exec_command({'cmd': 'go " +
				"test ./...'})]);", sessioncache.ClassCommand, "", "go vet ./...\ngo test ./...", sourceCommand,
		},
		{
			"exec", "text(await tools.read_file({path: 'src/a.go'}));", sessioncache.ClassCommand, "src/a.go",
			"text(await tools.read_file({path: 'src/a.go'}));", sourceOther,
		},
		{
			"exec", "await tools.apply_patch(`" + patch + "`);", sessioncache.ClassEdit, "src/main.go", "src/main.go",
			sourceOther,
		},
		{
			"exec", "await tools.apply_patch(" + string(content.Quote(patch)) + ");", sessioncache.ClassEdit, "src/main.go",
			"src/main.go", sourceOther,
		},
	} {
		body, err := json.Marshal(c.body)
		if err != nil {
			t.Fatal(err)
		}
		input := gjson.ParseBytes(body)
		got := content.UnderstandCall(c.name, input)
		if got.Class != c.class || c.path != "" && got.Path != c.path {
			t.Errorf("%s %s: class %d, path %q; want %d, %q", c.name, body, got.Class, got.Path, c.class, c.path)
		}
		if a := content.CallArgument(input); a != c.argument {
			t.Errorf("%s %s: argument %q, want %q", c.name, body, a, c.argument)
		}
		if o := originOf(c.name, input, false); o.source != c.source {
			t.Errorf("%s %s: source %d, want %d", c.name, body, o.source, c.source)
		}
	}
}

func TestOrigin(t *testing.T) {
	shell := func(command string) string { return `{"command":` + string(content.Quote(command)) + `}` }
	for _, c := range []struct {
		tool, input string
		want        source
		numbered    bool
	}{
		{"Read", `{"file_path":"/src/a.go"}`, sourceRead, true},
		{"read_file", `{"file_path":"/src/a.go"}`, sourceRead, true},
		{"mcp__files__read-text-file", `{"file_path":"/src/a.go"}`, sourceRead, true},
		{"Grep", `{}`, sourceSearch, false},
		{"WebFetch", `{}`, sourceOther, false},
		{"Task", `{}`, sourceOther, false},
		{"Write", `{"file_path":"/src/a.go"}`, sourceWrite, true},
		{"bash", shell("npm test"), sourceCommand, false},
		{"bash", shell("npm test 2>&1 | tail -50"), sourceCommand, false},
		{"bash", shell("cd /src && FOO=1 timeout 60 go test ./... | grep FAIL"), sourceCommand, false},
		{"bash", shell("git log --oneline -5; git status"), sourceCommand, false},
		{"bash", shell("tail -n 100 /tmp/build.log"), sourceCommand, false},
		{"bash", shell("tail -n 100 main.go"), sourceRead, false},
		{"bash", shell("cat build.log main.go"), sourceRead, false},
		{"bash", shell("make && cat main.go"), sourceRead, false},
		{"bash", shell("cat -n main.go"), sourceRead, true},
		{"bash", shell("cd src; nl -ba main.go | sed -n '1,9p'"), sourceRead, true},
		{"bash", shell("git -C /src --no-pager diff HEAD~1"), sourceRead, false},
		{"bash", shell("/usr/bin/git show HEAD:main.go"), sourceRead, false},
		{"bash", shell("git ls-files | xargs head -5"), sourceRead, false},
		{"bash", shell("find . -name '*.go' -exec cat {} +"), sourceRead, false},
		{"bash", shell("docker exec web cat /etc/nginx.conf"), sourceRead, false},
		{"bash", shell(`python -c "print(open('a').read())"`), sourceRead, false},
		{"bash", shell("grep -rn foo src"), sourceSearch, false},
		{"bash", shell("git ls-files | xargs grep foo"), sourceSearch, false},
		{"bash", shell("grep -q foo a && sed -n 1,5p a"), sourceRead, false},
		{"bash", `{}`, sourceCommand, false},
		{"shell", `{"command":["bash","-lc","cat a.go"]}`, sourceRead, false},
		{"shell", `{"command":["bash","-lc","go build"]}`, sourceCommand, false},
		{"exec_command", string(content.Quote(`{"cmd":"sed -n 1,9p a.go"}`)), sourceRead, false},
	} {
		o := originOf(c.tool, gjson.Parse(c.input), false)
		if o.source != c.want || o.numbered != c.numbered {
			t.Errorf("%s %s: source %d numbered %t, want %d %t", c.tool, c.input, o.source, o.numbered, c.want, c.numbered)
		}
	}
}
