// Package replicaset replaces Kubernetes' package pkg/controller/replicaset in its integration tests, so that they start
// ordered-controller-manager, in a process of its own.
package replicaset

import (
	"fmt"
	"io/ioutil"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	clientset "k8s.io/client-go/kubernetes"
)

// BurstReplicas is an argument of NewReplicaSetController. The program has the same limit.
const BurstReplicas = 500

// ReplicaSetController runs the program that the environment variable E2E_CONTROLLER names.
type ReplicaSetController struct {
	server string
}

// NewReplicaSetController asks for both informers, so that the factory of the test starts them.
func NewReplicaSetController(sets appsinformers.ReplicaSetInformer, pods coreinformers.PodInformer, client clientset.Interface, burst int) *ReplicaSetController {
	sets.Informer()
	pods.Informer()
	url := client.CoreV1().RESTClient().Get().URL()
	return &ReplicaSetController{server: url.Scheme + "://" + url.Host}
}

// Run runs the program until stop is closed. It does not probe for another controller of ReplicaSets: there is none.
func (controller *ReplicaSetController) Run(workers int, stop <-chan struct{}) {
	if err := controller.run(stop); err != nil {
		panic(err)
	}
}

func (controller *ReplicaSetController) run(stop <-chan struct{}) error {
	folder, err := ioutil.TempDir("", "ordered-controller-manager")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	kubeconfig := filepath.Join(folder, "kubeconfig")
	text := strings.Replace(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "SERVER"}}]
users: [{name: test, user: {}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
`, "SERVER", controller.server, 1)
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
