package tandemmq;

import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs commands of mqadmin, each as the tool would in a process of its own. A request (see Loop) is the words of one. */
public final class AdminRun {
    private static final int MOMENT_MS = 20;

    private AdminRun() {
    }

    public static void main(String[] none) throws Exception {
        Thread waker = new Thread(AdminRun::wake, "waker");
        waker.setDaemon(true);
        waker.start();
        Loop.run(words -> {
            MQAdminStartup.main0(words, null);
            return null;
        });
    }

    /**
     * Ends the wait of clients that shut down, which each command does: their thread for events looks every 3 s whether it has to end, and takes an interrupt of its wait as a look
     * without an event.
     */
    private static void wake() {
        Thread[] threads = new Thread[1000];
        for (;;) {
            int n = Thread.enumerate(threads);
            for (int i = 0; i < n; i++) {
                if (threads[i].getName().startsWith("NettyEventExecutor") && threads[i].getState() == Thread.State.TIMED_WAITING) {
                    threads[i].interrupt();
                }
            }
            try {
                Thread.sleep(MOMENT_MS);
            } catch (InterruptedException e) {
                return;
            }
        }
    }
}
