// Package replicaset replaces Kubernetes' package pkg/controller/replicaset in its integration tests, so that they start
// ordered-controller-manager, in a process of its own.
package replicaset

import (
	"context"
	"fmt"
	"io/ioutil"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// BurstReplicas is an argument of NewReplicaSetController. The program has the same limit.
const BurstReplicas = 500

// ReplicaSetController runs the program that the environment variable E2E_CONTROLLER names.
type ReplicaSetController struct {
	server *url.URL
	client *http.Client
}

// NewReplicaSetController takes the arguments of Kubernetes' own: two informers, the client and a limit, since 1.28 after a context. It
// asks for both informers, so that the factory of the test starts them.
func NewReplicaSetController(arguments ...interface{}) *ReplicaSetController {
	controller := &ReplicaSetController{}
	for _, argument := range arguments {
		switch argument := argument.(type) {
		case appsinformers.ReplicaSetInformer:
			argument.Informer()
		case coreinformers.PodInformer:
			argument.Informer()
		case clientset.Interface:
			client := argument.CoreV1().RESTClient()
			controller.server = client.Get().URL()
			controller.client = client.(*rest.RESTClient).Client
		}
	}
	return controller
}

// Run runs the program until the channel is closed, or the context is done. It does not probe for another controller of ReplicaSets: there
// is none.
func (controller *ReplicaSetController) Run(arguments ...interface{}) {
	var stop <-chan struct{}
	for _, argument := range arguments {
		switch argument := argument.(type) {
		case context.Context:
			stop = argument.Done()
		case <-chan struct{}:
			stop = argument
		case chan struct{}:
			stop = argument
		}
	}
	if err := controller.run(stop); err != nil {
		panic(err)
	}
}

// proxy sends what it gets to the API server with the credentials of the test.
func (controller *ReplicaSetController) proxy() *httptest.Server {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: controller.server.Scheme, Host: controller.server.Host})
	if controller.client != nil {
		proxy.Transport = controller.client.Transport
	}
	proxy.FlushInterval = -1
	return httptest.NewServer(proxy)
}

func (controller *ReplicaSetController) run(stop <-chan struct{}) error {
	folder, err := ioutil.TempDir("", "ordered-controller-manager")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	proxy := controller.proxy()
	defer proxy.CloseClientConnections()
	kubeconfig := filepath.Join(folder, "kubeconfig")
	text := strings.Replace(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "SERVER"}}]
users: [{name: test, user: {}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
`, "SERVER", proxy.URL, 1)
	if err := ioutil.WriteFile(kubeconfig, []byte(text), 0600); err != nil {
		return err
	}
	command := exec.Command(os.Getenv("E2E_CONTROLLER"), "--controllers=replicaset", "--force",
		"--kubeconfig="+kubeconfig, "--metrics-bind-address=127.0.0.1:0")
	// It ends with this process. The signal comes when the thread ends that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stdout = os.Stdout
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case <-stop:
		command.Process.Kill()
		<-ended
		return nil
	case err := <-ended:
		return fmt.Errorf("ordered-controller-manager ended: %v", err)
	}
}
